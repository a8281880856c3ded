"""Metres per 1e-7 degree, in plain arithmetic that SQL repeats operation by operation.

A database may lack `cos`, and one that has it need not round like Python's; products and sums of IEEE doubles are the
same everywhere. So WGS84's two scales are polynomials in z = (latitude / 90 degrees) squared, evaluated by Horner's
rule. SQL gets the coefficients as parameters: not every database reads a written number to the last bit.
"""

from __future__ import annotations

QUARTER = 900_000_000.0
"""90 degrees in stored units."""
HALF_TURN = 1_800_000_000
TURN = 3_600_000_000

NORTH = (0.011057488018661016, 0.0002720341939433896, -0.00021009745644588556, 5.0033912259220124e-05)
"""Metres per unit along the meridian, lowest power first; within 6e-6 of the ellipsoid's."""
EAST = (
    0.011131951282304544,
    -0.0025097156258732673,
    0.0001272156540541491,
    2.9811366154569785e-05,
    -6.840130217242475e-06,
)
"""The same along the parallel, divided by 1 - z, which is 0 at the poles; within 3e-7."""


def squared_latitude(lat_e7: int) -> float:
    """z of a stored latitude, 0 to 1."""
    x = lat_e7 / QUARTER
    return x * x


def north_m(z: float) -> float:
    """Metres per unit of latitude."""
    n0, n1, n2, n3 = NORTH
    return ((n3 * z + n2) * z + n1) * z + n0


def east_m(z: float) -> float:
    """Metres per unit of longitude; 0.0 at the poles."""
    e0, e1, e2, e3, e4 = EAST
    return (1.0 - z) * ((((e4 * z + e3) * z + e2) * z + e1) * z + e0)


def shortest_turn(units: int) -> int:
    """A difference of two stored longitudes the short way round, -180 up to (not with) 180 degrees."""
    return (units + TURN + HALF_TURN) % TURN - HALF_TURN
