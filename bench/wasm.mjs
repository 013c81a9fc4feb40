// Measures a TF.js graph model on TensorFlow.js' WebAssembly backend, on one thread.
//
// usage: node wasm.mjs MODULES MODEL.json REQUEST.json
//
// MODULES is the folder with node_modules.  REQUEST lists "inputs" (name, dtype, shape, file with the raw
// little-endian elements), "outputs" (tensor name, file to write) and "seconds".  Prints milliseconds
// as JSON, and the outputs' shapes and types.
import {readFileSync, writeFileSync} from 'node:fs';
import {artifacts, requireFrom, tensor, useWasm} from '../tests/tools/tfjs.mjs';

const [modules, modelPath, requestPath] = process.argv.slice(2);
const require = requireFrom(modules);
const tf = require('@tensorflow/tfjs-core');
const {GraphModel} = require('@tensorflow/tfjs-converter');

const started = performance.now();
await useWasm(require, tf);
const model = new GraphModel({load: () => artifacts(modelPath)});
await model.load();
const request = JSON.parse(readFileSync(requestPath, 'utf8'));
const inputs = Object.fromEntries(request.inputs.map((i) => [i.name, tensor(tf, i)]));
const names = request.outputs.map((o) => o.name);

// Reading the outputs is part of a run, since only then are they complete.
function run(use) {
	tf.tidy(() => {
		const results = model.execute(inputs, names);
		(Array.isArray(results) ? results : [results]).forEach((t, i) => use(t, i, t.dataSync()));
	});
}

const outputs = [];
run((t, i, data) => {
	writeFileSync(request.outputs[i].file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
	outputs.push({shape: t.shape, dtype: t.dtype});
});
const load = performance.now() - started, times = [];
for (let i = 0; i < 3; i++) run(() => {});
const end = performance.now() + 1000 * request.seconds;
while (performance.now() < end || times.length < 10) {
	const start = performance.now();
	run(() => {});
	times.push(performance.now() - start);
}
times.sort((a, b) => a - b);
process.stdout.write(JSON.stringify({
	outputs, load, min: times[0], median: times[times.length >> 1], p90: times[Math.floor(times.length * 0.9)],
	rss: process.resourceUsage().maxRSS / 1e3,
}) + '\n');
