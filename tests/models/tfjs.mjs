// Runs a TF.js graph model on TensorFlow.js' JavaScript backend.
//
// usage: node tfjs.mjs MODULES MODEL.json REQUEST.json
//
// MODULES is the folder with node_modules.  REQUEST lists "inputs" (name, dtype, shape, file with
// the raw little-endian elements) and "outputs" (tensor name, file to write); the shape and dtype of
// each output are printed as JSON.
import {readFileSync, writeFileSync} from 'node:fs';
import {artifacts, requireFrom, tensor} from '../tools/tfjs.mjs';

const [modules, modelPath, requestPath] = process.argv.slice(2);
const require = requireFrom(modules);
const tf = require('@tensorflow/tfjs-core');
require('@tensorflow/tfjs-backend-cpu');
const {GraphModel} = require('@tensorflow/tfjs-converter');

await tf.setBackend('cpu');
const model = new GraphModel({load: () => artifacts(modelPath)});
await model.load();
const request = JSON.parse(readFileSync(requestPath, 'utf8'));
const inputs = Object.fromEntries(request.inputs.map((i) => [i.name, tensor(tf, i)]));
const results = model.execute(inputs, request.outputs.map((o) => o.name));
const list = Array.isArray(results) ? results : [results];
process.stdout.write(JSON.stringify(list.map((t, i) => {
	const data = t.dataSync();
	writeFileSync(request.outputs[i].file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
	return {shape: t.shape, dtype: t.dtype};
})) + '\n');
