import { render } from "preact";
import { Shell } from "./core/shell";
import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";

const root = document.getElementById("app");
if (root !== null) render(<Shell />, root);
