// Streams text in Node.js, by an addon over the C interface: node stream.cjs ADDON MODEL
const [addon, path] = process.argv.slice(2);
const bantam = require(addon);

const model = bantam.load(path); // shared by as many streams as you like
let text = "";
bantam.stream(model, "It was a dark night, and", 32, (piece) => {
  text += piece;
  process.stdout.write(piece); // what it throws ends the stream, and comes out of it
});
console.log();

try {
  bantam.load("no/such/model");
} catch (error) {
  console.log(error.message);
}
if (text.length === 0) process.exit(1);
