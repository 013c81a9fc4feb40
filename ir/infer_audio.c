/* Rules of audio ops. */
#include "ir/infer.h"

enum ht_status ht_infer_decode_wav(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);
	int64_t samples = ht_attr_int(n, "desired_samples", -1);
	int64_t channels = ht_attr_int(n, "desired_channels", -1);

	if (samples >= 0)
		d[0] = samples;
	if (channels >= 0)
		d[1] = channels;
	ht_set_shape(n, 0, 2, d);
	n->out[1].shape = HT_SHAPE_SCALAR;
	return HT_OK;
}

/* From [samples, channels] to [channels, windows, frequencies]. */
enum ht_status ht_infer_spectrogram(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t window = ht_attr_int(n, "window_size", 0), stride = ht_attr_int(n, "stride", 0);
	int64_t *d = ht_new_dims(in, 3);
	int64_t power = 1;

	HT_TRY(ht_want_rank(in, n, 0, 2));
	if (window < 2 || window > INT32_MAX || stride < 1)
		return ht_infer_fail(in, n, "window_size %lld and stride %lld cannot be",
			(long long)window, (long long)stride);
	while (power < window)
		power *= 2;
	d[2] = 1 + power / 2;
	if (s.rank == 2) {
		d[0] = s.dim[1];
		if (s.dim[0] >= 0)
			d[1] = s.dim[0] < window ? 0 : 1 + (s.dim[0] - window) / stride;
	}
	ht_set_shape(n, 0, 3, d);
	return HT_OK;
}

enum ht_status ht_infer_mfcc(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, 3);

	HT_TRY(ht_want_rank(in, n, 0, 3));
	d[2] = ht_attr_int(n, "dct_coefficient_count", 13);
	if (d[2] < 0)
		return ht_infer_fail(in, n, "dct_coefficient_count is negative");
	if (s.rank == 3) {
		d[0] = s.dim[0];
		d[1] = s.dim[1];
	}
	ht_set_shape(n, 0, 3, d);
	return HT_OK;
}
