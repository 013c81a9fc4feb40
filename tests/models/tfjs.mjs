// Runs a TF.js graph model on TensorFlow.js' JavaScript backend.
//
// usage: node tfjs.mjs MODULES MODEL.json REQUEST.json
//
// MODULES is the folder with node_modules.  REQUEST lists "inputs" (name, dtype, shape, file with
// the raw little-endian elements) and "outputs" (tensor name, file to write); the shape and dtype of
// each output are printed as JSON.
import {createRequire} from 'node:module';
import {readFileSync, writeFileSync} from 'node:fs';
import {dirname, join, resolve} from 'node:path';

const [modules, modelPath, requestPath] = process.argv.slice(2);
const require = createRequire(resolve(modules, 'x.js'));
console.log = console.warn = console.info = () => {};  // the libraries' advice
const tf = require('@tensorflow/tfjs-core');
require('@tensorflow/tfjs-backend-cpu');
const {GraphModel} = require('@tensorflow/tfjs-converter');

function artifacts() {
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

function tensor({dtype, shape, file}) {
	const raw = readFileSync(file), bytes = raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length);
	return tf.tensor(dtype === 'int32' ? new Int32Array(bytes) : new Float32Array(bytes), shape, dtype);
}

await tf.setBackend('cpu');
const model = new GraphModel({load: () => artifacts()});
await model.load();
const request = JSON.parse(readFileSync(requestPath, 'utf8'));
const inputs = Object.fromEntries(request.inputs.map((i) => [i.name, tensor(i)]));
const results = model.execute(inputs, request.outputs.map((o) => o.name));
const list = Array.isArray(results) ? results : [results];
process.stdout.write(JSON.stringify(list.map((t, i) => {
	const data = t.dataSync();
	writeFileSync(request.outputs[i].file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
	return {shape: t.shape, dtype: t.dtype};
})) + '\n');
