// Runs a TF.js graph model on TensorFlow.js, by the first of its backends that has all kernels.
//
// usage: node tfjs.mjs MODULES MODEL.json REQUEST.json
//
// MODULES is the folder with node_modules.  REQUEST lists "outputs" (names of tensors), "backends", of wasm and cpu
// (JavaScript), and "samples", each with "inputs" (name, dtype, shape, file with the raw little-endian elements) and "files"
// (to write, one for each output); the shapes and dtypes of each sample's outputs are printed as JSON.
import {readFileSync, writeFileSync} from 'node:fs';
import {artifacts, requireFrom, tensor, useWasm} from '../tools/tfjs.mjs';

const [modules, modelPath, requestPath] = process.argv.slice(2);
const require = requireFrom(modules);
const tf = require('@tensorflow/tfjs-core');
require('@tensorflow/tfjs-backend-cpu');
const {GraphModel} = require('@tensorflow/tfjs-converter');
const request = JSON.parse(readFileSync(requestPath, 'utf8'));

function store(results, files) {
	return results.map((t, i) => {
		// A Cast to float32 keeps the array of integers that it had.
		const data = t.dtype === 'float32' ? Float32Array.from(t.dataSync()) : t.dataSync();
		writeFileSync(files[i], new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
		return {shape: t.shape, dtype: t.dtype};
	});
}

/** Also of a model with loops and with sizes that depend on data, which execute() refuses. */
async function execute() {
	const model = new GraphModel({load: () => artifacts(modelPath)}), shapes = [];
	await model.load();
	for (const sample of request.samples) {
		const inputs = Object.fromEntries(sample.inputs.map((i) => [i.name, tensor(tf, i)]));
		const results = await model.executeAsync(inputs, request.outputs);
		shapes.push(store(Array.isArray(results) ? results : [results], sample.files));
	}
	return shapes;
}

/** The results of the first backend that has all kernels in the required forms. */
async function executeBy([backend, ...others]) {
	await (backend === 'wasm' ? useWasm(require, tf) : tf.setBackend(backend));
	try {
		return await execute();
	} catch (error) {
		if (!others.length || !/not registered|not supported|not yet/i.test(error.message)) throw error;
	}
	return executeBy(others);
}

process.stdout.write(JSON.stringify(await executeBy(request.backends)) + '\n');
