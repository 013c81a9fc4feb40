/* halftone._call: runs a context on arrays that need no conversion, without ctypes, which takes ten
 * times as long.  It uses CPython's stable ABI, so one file serves CPython 3.10 and later; other
 * interpreters run without it.
 *
 * A Call never reports that arguments are wrong.  If they are not as it expects them, it does
 * nothing and returns None; the package's Python code then converts them or reports the error. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <halftone/runtime.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The struct in the capsule of NumPy's attribute __array_struct__. */
struct array_struct {
	int two, rank;
	char kind;
	int item_bytes, flags;
	Py_intptr_t *dim, *stride;
	void *data;
	PyObject *descr;
};
enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, NATIVE = 0x200, WRITABLE = 0x400 };

/* Ctrl-C must be able to end a run that takes longer; the package's Python code can do that. */
enum { LONG_RUN_NS = 50000000 };

typedef enum ht_status run_fn(struct ht_context *c, const struct ht_array *in, size_t ins,
	const struct ht_array *out, size_t outs, struct ht_diags *d);

/* The inputs or the outputs. */
struct side {
	struct ht_array *array; /* owned; its dimensions are the package's */
	size_t n;
	PyObject *numbers;                 /* dict: name -> number */
	PyObject *names, *dtypes, *shapes; /* tuples */
};

struct call {
	PyObject_HEAD run_fn *run;
	struct ht_context *context;
	struct side in, out;
	/* numpy.empty; the object that owns the memory to which this one refers */
	PyObject *empty, *keeps;
	int32_t *cancel;
	bool loops; /* the duration of a run depends on data */
	bool busy;
	bool slow; /* the last run was long, or there was none yet */
};

static PyObject *dtype_name, *struct_name; /* interned */

/* ---- arrays ---- */

static bool has_shape(const struct array_struct *s, const struct ht_array *a)
{
	size_t bytes = (size_t)s->item_bytes;

	if (s->two != 2 || s->rank != a->rank)
		return false;
	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] != a->dim[i])
			return false;
		bytes *= (size_t)s->dim[i];
	}
	return bytes == a->bytes;
}

/* The memory of an array of exactly this dtype and shape, dense, in native byte order; NULL: the
 * array differs. */
static void *memory_of(PyObject *x, const struct ht_array *a, PyObject *dtype, int flags)
{
	PyObject *capsule, *has = PyObject_GetAttr(x, dtype_name);
	const struct array_struct *s;
	void *p = NULL;

	Py_XDECREF(has); /* only compared by address; `dtype` keeps it alive */
	if (has != dtype)
		return NULL;
	capsule = PyObject_GetAttr(x, struct_name);
	if (!capsule)
		return NULL;
	s = PyCapsule_GetPointer(capsule, NULL);
	flags |= CONTIGUOUS | ALIGNED | NATIVE;
	if (s && (s->flags & flags) == flags && has_shape(s, a))
		p = s->data;
	Py_DECREF(capsule);
	return p;
}

static bool place(struct side *s, size_t i, PyObject *x, int flags)
{
	void *p = memory_of(x, &s->array[i], PyTuple_GetItem(s->dtypes, (Py_ssize_t)i), flags);

	s->array[i].data = p;
	return p != NULL;
}

static bool number_of(const struct side *s, PyObject *name, size_t *i)
{
	PyObject *number = PyDict_GetItemWithError(s->numbers, name);

	if (!number)
		return false;
	*i = PyLong_AsSize_t(number);
	return *i < s->n;
}

/* ---- inputs ---- */

static bool feed(struct call *c, PyObject *given, PyObject *named)
{
	size_t n = (size_t)PyTuple_Size(given), i;
	PyObject *name, *x;
	Py_ssize_t at = 0;

	if (n + (size_t)PyDict_Size(named) != c->in.n)
		return false;
	for (i = 0; i < c->in.n; i++)
		c->in.array[i].data = NULL;
	for (i = 0; i < n; i++)
		if (!place(&c->in, i, PyTuple_GetItem(given, (Py_ssize_t)i), 0))
			return false;
	while (PyDict_Next(named, &at, &name, &x))
		if (!number_of(&c->in, name, &i) || c->in.array[i].data || !place(&c->in, i, x, 0))
			return false;
	return true;
}

/* ---- outputs ---- */

/* Puts the caller's arrays into the dict of results, under the outputs' own names. */
static bool take(struct call *c, PyObject *out, PyObject *results)
{
	PyObject *name, *x;
	Py_ssize_t at = 0;
	size_t i;

	while (PyDict_Next(out, &at, &name, &x))
		if (!number_of(&c->out, name, &i) || c->out.array[i].data ||
			!place(&c->out, i, x, WRITABLE) ||
			PyDict_SetItem(results, PyTuple_GetItem(c->out.names, (Py_ssize_t)i), x))
			return false;
	return true;
}

static bool make(struct call *c, size_t i, PyObject *results)
{
	PyObject *shape = PyTuple_GetItem(c->out.shapes, (Py_ssize_t)i);
	PyObject *dtype = PyTuple_GetItem(c->out.dtypes, (Py_ssize_t)i);
	PyObject *x = PyObject_CallFunctionObjArgs(c->empty, shape, dtype, NULL);
	bool ok = x && place(&c->out, i, x, WRITABLE) &&
		  !PyDict_SetItem(results, PyTuple_GetItem(c->out.names, (Py_ssize_t)i), x);

	Py_XDECREF(x);
	return ok;
}

static bool overlap(const struct ht_array *a, const struct ht_array *b)
{
	uintptr_t p = (uintptr_t)a->data, q = (uintptr_t)b->data;

	return p < q + b->bytes && q < p + a->bytes;
}

static bool apart(const struct call *c)
{
	for (size_t i = 0; i < c->out.n; i++) {
		for (size_t j = 0; j < c->in.n; j++)
			if (overlap(&c->out.array[i], &c->in.array[j]))
				return false;
		for (size_t j = 0; j < i; j++)
			if (overlap(&c->out.array[i], &c->out.array[j]))
				return false;
	}
	return true;
}

/* A dict for the results, which has the names in their order from the start. */
static PyObject *room(struct call *c, PyObject *out)
{
	PyObject *results = PyDict_New();
	bool ok = results != NULL;

	for (size_t i = 0; ok && i < c->out.n; i++) {
		c->out.array[i].data = NULL;
		ok = out == Py_None ||
		     !PyDict_SetItem(
			     results, PyTuple_GetItem(c->out.names, (Py_ssize_t)i), Py_None);
	}
	ok = ok && (out == Py_None || take(c, out, results));
	for (size_t i = 0; ok && i < c->out.n; i++)
		ok = c->out.array[i].data || make(c, i, results);
	if (ok && (out == Py_None || apart(c)))
		return results;
	Py_XDECREF(results);
	return NULL;
}

/* ---- Ctrl-C: a run in the main thread whose length depends on data is cancelled ---- */

static int32_t *to_cancel;
static struct sigaction python_s;

static void interrupt(int signal, siginfo_t *info, void *machine)
{
	*to_cancel = 1;
	if (python_s.sa_flags & SA_SIGINFO)
		python_s.sa_sigaction(signal, info, machine);
	else
		python_s.sa_handler(signal);
}

static bool has_handler(const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

static bool watch(const struct call *c)
{
	struct sigaction ours = { .sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = interrupt };

	if (!c->loops || gettid() != getpid() || sigaction(SIGINT, NULL, &python_s) ||
		!has_handler(&python_s))
		return false;
	to_cancel = c->cancel;
	return !sigaction(SIGINT, &ours, NULL);
}

static void unwatch(const struct call *c)
{
	sigaction(SIGINT, &python_s, NULL);
	*c->cancel = 0;
}

/* ---- running ---- */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static enum ht_status run(
	struct call *c, const struct ht_array *in, const struct ht_array *out, struct ht_diags *d)
{
	bool watched = watch(c);
	enum ht_status status;
	int64_t begin;

	Py_BEGIN_ALLOW_THREADS;
	begin = now_ns();
	status = c->run(c->context, in, c->in.n, out, c->out.n, d);
	c->slow = now_ns() - begin > LONG_RUN_NS;
	Py_END_ALLOW_THREADS;
	if (watched)
		unwatch(c);
	c->busy = false;
	return status;
}

static bool may_run(const struct call *c)
{
	return c->context && !c->busy && !c->slow;
}

static PyObject *status_of(enum ht_status status)
{
	return PyErr_CheckSignals() ? NULL : PyLong_FromLong(status);
}

/* Puts the addresses into the arrays; NULL: this run needs the package's Python code.  Reading
 * attributes of arrays may run other Python code. */
static PyObject *prepare(struct call *c, PyObject *given, PyObject *named, PyObject *out)
{
	PyObject *results = NULL;

	c->busy = true;
	if (feed(c, given, named))
		results = room(c, out);
	c->busy = false;
	if (results && c->context && !PyErr_Occurred())
		return results;
	Py_XDECREF(results);
	PyErr_Clear();
	return NULL;
}

/* run(given, named, out, diags): a dict of arrays; None: this run needs the package's Python code;
 * an integer: the status of a failure. */
static PyObject *call_run(PyObject *self, PyObject *const *argument, Py_ssize_t n)
{
	struct call *c = (struct call *)self;
	PyObject *results;
	enum ht_status status;

	if (n != 4 || !may_run(c) || !PyTuple_Check(argument[0]) || !PyDict_Check(argument[1]) ||
		(argument[2] != Py_None && !PyDict_Check(argument[2])))
		Py_RETURN_NONE;
	results = prepare(c, argument[0], argument[1], argument[2]);
	if (!results)
		Py_RETURN_NONE;
	c->busy = true;
	status = run(c, c->in.array, c->out.array, PyLong_AsVoidPtr(argument[3]));
	if (status == HT_OK && !PyErr_CheckSignals())
		return results;
	Py_DECREF(results);
	return PyErr_Occurred() ? NULL : status_of(status);
}

/* again(addresses of the arrays of inputs and of outputs, diags): the status; None: this run needs
 * the package's Python code. */
static PyObject *call_again(PyObject *self, PyObject *const *argument, Py_ssize_t n)
{
	struct call *c = (struct call *)self;

	if (n != 3 || !may_run(c))
		Py_RETURN_NONE;
	c->busy = true;
	return status_of(run(c, PyLong_AsVoidPtr(argument[0]), PyLong_AsVoidPtr(argument[1]),
		PyLong_AsVoidPtr(argument[2])));
}

/* ---- one run at a time ---- */

static PyObject *call_acquire(PyObject *self, PyObject *Py_UNUSED(blocking))
{
	struct call *c = (struct call *)self;
	bool had = c->busy;

	c->busy = true;
	return PyBool_FromLong(!had);
}

static PyObject *call_release(PyObject *self, PyObject *Py_UNUSED(none))
{
	((struct call *)self)->busy = false;
	Py_RETURN_NONE;
}

/* slow(whether a run by the package's Python code took long) */
static PyObject *call_slow(PyObject *self, PyObject *slow)
{
	((struct call *)self)->slow = PyObject_IsTrue(slow) != 0;
	Py_RETURN_NONE;
}

/* close(): allows no more runs.  A run in progress keeps the objects that it uses. */
static PyObject *call_close(PyObject *self, PyObject *Py_UNUSED(none))
{
	((struct call *)self)->context = NULL;
	Py_RETURN_NONE;
}

/* ---- creating a Call ---- */

static bool make_side(struct side *s, PyObject *o, const void *arrays)
{
	Py_ssize_t n;

	if (!PyArg_ParseTuple(o, "O!O!O!O!", &PyDict_Type, &s->numbers, &PyTuple_Type, &s->names,
		    &PyTuple_Type, &s->dtypes, &PyTuple_Type, &s->shapes))
		return false;
	Py_INCREF(s->numbers);
	Py_INCREF(s->names);
	Py_INCREF(s->dtypes);
	Py_INCREF(s->shapes);
	n = PyTuple_Size(s->names);
	s->array = malloc(((size_t)n + 1) * sizeof *s->array);
	if (!s->array) {
		PyErr_NoMemory();
		return false;
	}
	s->n = (size_t)n;
	memcpy(s->array, arrays, s->n * sizeof *s->array);
	return true;
}

static void free_side(struct side *s)
{
	free(s->array);
	Py_XDECREF(s->numbers);
	Py_XDECREF(s->names);
	Py_XDECREF(s->dtypes);
	Py_XDECREF(s->shapes);
}

static void call_free(PyObject *self)
{
	struct call *c = (struct call *)self;
	PyTypeObject *type = Py_TYPE(self);

	free_side(&c->in);
	free_side(&c->out);
	Py_XDECREF(c->empty);
	Py_XDECREF(c->keeps);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF(type);
}

/* Call(ht_context_run, context, arrays of inputs, of outputs, cancel: addresses; (numbers, names,
 * dtypes, shapes) of inputs, of outputs; numpy.empty; whether the program has loops; the owner of
 * all that) */
static PyObject *call_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named))
{
	struct call *c = (struct call *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	PyObject *address[5], *in, *out, *empty, *keeps;
	void *p[5];
	int loops;

	if (!c)
		return NULL;
	if (!PyArg_ParseTuple(arguments, "OOOOOOOOpO", &address[0], &address[1], &address[2],
		    &address[3], &address[4], &in, &out, &empty, &loops, &keeps))
		goto failed;
	for (int i = 0; i < 5; i++)
		p[i] = PyLong_AsVoidPtr(address[i]);
	if (PyErr_Occurred() || !make_side(&c->in, in, p[2]) || !make_side(&c->out, out, p[3]))
		goto failed;
	memcpy(&c->run, &p[0], sizeof c->run);
	c->context = p[1];
	c->cancel = p[4];
	c->loops = loops;
	c->slow = true;
	c->empty = empty;
	c->keeps = keeps;
	Py_INCREF(empty);
	Py_INCREF(keeps);
	return (PyObject *)c;
failed:
	Py_DECREF(c);
	return NULL;
}

static PyMethodDef methods[] = {
	{ "run", (PyCFunction)(void (*)(void))call_run, METH_FASTCALL, NULL },
	{ "again", (PyCFunction)(void (*)(void))call_again, METH_FASTCALL, NULL },
	{ "slow", call_slow, METH_O, NULL },
	{ "acquire", call_acquire, METH_O, NULL },
	{ "release", call_release, METH_NOARGS, NULL },
	{ "close", call_close, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_new, call_new },
	{ Py_tp_dealloc, call_free },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = { "halftone._call.Call", sizeof(struct call), 0, Py_TPFLAGS_DEFAULT,
	slots };

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, "_call", NULL, -1, NULL, NULL, NULL,
	NULL, NULL };

PyMODINIT_FUNC PyInit__call(void);
PyMODINIT_FUNC PyInit__call(void)
{
	PyObject *m = PyModule_Create(&module), *type = PyType_FromSpec(&spec);

	dtype_name = PyUnicode_InternFromString("dtype");
	struct_name = PyUnicode_InternFromString("__array_struct__");
	if (!m || !type || !dtype_name || !struct_name || PyModule_AddObject(m, "Call", type)) {
		Py_XDECREF(m);
		return NULL;
	}
	return m;
}
