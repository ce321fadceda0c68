// What scripts about clients share: finding their packages, and stating facts.
import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const folder = path.resolve(process.env.BANTAM_PEERS ?? import.meta.dirname);
const require = createRequire(path.join(folder, "package.json"));

/// A package of tests/peers, or of where BANTAM_PEERS says.
export async function load(name) {
  return import(pathToFileURL(require.resolve(name)).href);
}

/// The names of all models of the server; BANTAM_SERVED has those beside the first.
export function served(first) {
  return [first, ...(process.env.BANTAM_SERVED ?? "").split(" ").filter((name) => name !== "")];
}

/// Runs functions by the names of the facts that they state, and ends the process with 1 if one does not hold.
export async function run(facts) {
  let failed = 0;
  for (const [name, fact] of Object.entries(facts)) {
    try {
      await fact();
    } catch (error) {
      ++failed;
      console.log(`FAILED: ${name}: ${error.message}`);
    }
  }
  console.log(`${path.basename(process.argv[1])}: ${Object.keys(facts).length - failed} facts hold, ${failed} do not`);
  process.exit(failed ? 1 : 0);
}

/// A grammar of one text: what a tiny model writes is what it is told to.
export function literally(text) {
  return `root ::= ${JSON.stringify(text)}`;
}
