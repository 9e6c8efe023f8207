// Says what is wrong with objects, by the models that are made of the Go code of Kubernetes and of its operators: one line each.
// Usage: node models.mjs NODE_MODULES <objects.json. Types are checked by tsc, as these checks let unknown keys pass.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const modules = process.argv[2];
for (const [number, object] of JSON.parse(readFileSync(0, "utf8")).entries()) {
  const { [object.kind]: Model } = await import(pathToFileURL(`${modules}/${object.module}.js`).href);
  try {
    const { module, ...whole } = object;
    new Model(whole).validate();
  } catch (error) {
    console.log(`${number} ${object.kind} ${object.metadata.name}: ${error.message}`);
  }
}
