import type { Data } from "../../api/client";
import type { Tone } from "../../parts/badge";

export type Doctor = Data<"/api/doctor">;
export type DoctorArea = Doctor["areas"][number];
export type DoctorFinding = DoctorArea["found"][number];
export type Kind = DoctorFinding["kind"];
export type State = DoctorArea["state"];

export const TONES: Record<State, Tone> = { problem: "critical", note: "warning", unconnected: "info", ok: "good" };
export const WORDS: Record<State, string> = {
  problem: "problem",
  note: "worth knowing",
  unconnected: "not connected",
  ok: "all well",
};
