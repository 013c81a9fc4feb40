// Runs a TF.js graph model in Node, for the oracle of tests/models and the measurement on WebAssembly.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join, resolve} from 'node:path';

/** require() of the packages in folder `modules`; the libraries' hints are not printed. */
export function requireFrom(modules) {
	console.log = console.warn = console.info = () => {};
	return createRequire(resolve(modules, 'x.js'));
}

/** Makes the WebAssembly backend of the library `tf` compute, on one thread. */
export async function useWasm(require, tf) {
	const wasm = require('@tensorflow/tfjs-backend-wasm');
	wasm.setWasmPaths(join(dirname(require.resolve('@tensorflow/tfjs-backend-wasm/package.json')), 'wasm-out/'));
	wasm.setThreadsCount(1);
	await tf.setBackend('wasm');
	await tf.ready();
}

/** The artifacts of the model.json at `modelPath`, as a GraphModel's loader returns them. */
export function artifacts(modelPath) {
	const json = JSON.parse(readFileSync(modelPath, 'utf8'));
	const specs = [], parts = [];
	for (const group of json.weightsManifest) {
		specs.push(...group.weights);
		for (const path of group.paths) parts.push(readFileSync(join(dirname(modelPath), path)));
	}
	const all = Buffer.concat(parts);
	return {
		modelTopology: json.modelTopology, weightSpecs: specs, signature: json.signature,
		weightData: all.buffer.slice(all.byteOffset, all.byteOffset + all.length),
	};
}

/** A tensor of the bytes of `file`, with the library `tf`. */
export function tensor(tf, {dtype, shape, file}) {
	const raw = readFileSync(file), bytes = raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length);
	return tf.tensor(dtype === 'int32' ? new Int32Array(bytes) : new Float32Array(bytes), shape, dtype);
}
