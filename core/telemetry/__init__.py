"""Pure rules of storage: what is worth a row, admission, binning, thinning."""
