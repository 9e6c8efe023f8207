// The pages, in the order of the navigation. Each is loaded when it is first opened.
import type { ComponentType } from "preact";

export interface PageEntry {
  path: string; // as /workloads/:name
  title: string;
  inNav?: boolean;
  key?: string; // after "g": g n opens Now
  load: () => Promise<{ default: ComponentType }>;
}

export const pages: PageEntry[] = [
  { path: "/", title: "Now", inNav: true, key: "n", load: () => import("./now") },
  { path: "/workloads", title: "Workloads", inNav: true, key: "w", load: () => import("./workloads") },
  { path: "/workloads/:cluster/:namespace/:kind/:name", title: "Workload", load: () => import("./workload") },
  { path: "/fleet", title: "Fleet", inNav: true, key: "f", load: () => import("./fleet") },
  { path: "/fleet/gpus/:uuid", title: "GPU", load: () => import("./fleet/gpu") },
  { path: "/money", title: "Money", inNav: true, key: "m", load: () => import("./money") },
  { path: "/experiments", title: "Experiments", inNav: true, key: "e", load: () => import("./experiments") },
  { path: "/services", title: "Services", inNav: true, key: "s", load: () => import("./services") },
  { path: "/incidents", title: "Incidents", inNav: true, key: "i", load: () => import("./incidents") },
  { path: "/incidents/:id", title: "Incident", load: () => import("./incidents/incident") },
  { path: "/explore", title: "Explore", inNav: true, key: "x", load: () => import("./explore") },
  { path: "/doctor", title: "Doctor", inNav: true, key: "d", load: () => import("./doctor") },
];
