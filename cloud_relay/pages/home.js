// The first page: only words.
import { begin } from "./words.js";

begin("home.title");
