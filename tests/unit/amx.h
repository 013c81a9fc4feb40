/* Emulates the instructions of AMX that kernels use, on machines without them: each raises SIGILL,
 * and the handler computes its result and continues after it.  Results are those of the manual
 * (tiles of palette 1, sums of pairs in float32), except for the order within a pair's sum, which
 * does not matter for whole numbers. */
#ifndef HT_TEST_AMX_H
#define HT_TEST_AMX_H

#include "base/base.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { AMX_ROWS = 16, AMX_LINE = 64, AMX_TILES = 8 };

static struct {
	uint8_t config[AMX_LINE];
	uint8_t tile[AMX_TILES][AMX_ROWS][AMX_LINE];
	unsigned long products;
} amx;

static int amx_rows(int tile)
{
	return amx.config[48 + tile];
}

static int amx_bytes(int tile)
{
	return amx.config[16 + 2 * tile] | amx.config[17 + 2 * tile] << 8;
}

/* An instruction's fields: VEX of three bytes, no immediate. */
struct amx_code {
	int pp, vvvv, opcode, mod, reg, rm, length;
	uint8_t *address;
	int64_t stride;
};

static int64_t amx_register(const ucontext_t *u, int number)
{
	static const int at[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI,
		REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

	return u->uc_mcontext.gregs[at[number]];
}

static int32_t amx_displacement(const uint8_t *p, int bytes)
{
	int32_t d = 0;

	if (bytes == 1)
		return (int8_t)p[0];
	memcpy(&d, p, (size_t)bytes);
	return d;
}

static void amx_memory(
	struct amx_code *c, const uint8_t *p, const ucontext_t *u, int high_x, int high_b)
{
	int n = c->mod == 1 ? 1 : c->mod == 2 ? 4 : 0, sib = 0;
	int64_t base = 0;

	if (c->rm == 4) {
		sib = *p++;
		c->length++;
		if ((sib & 7) == 5 && c->mod == 0)
			n = 4;
		else
			base = amx_register(u, (sib & 7) | high_b << 3);
		if ((sib >> 3 & 7) != 4 || high_x)
			c->stride = amx_register(u, (sib >> 3 & 7) | high_x << 3) << (sib >> 6);
	} else if (c->rm == 5 && c->mod == 0) { /* relative to the next instruction */
		n = 4;
		base = u->uc_mcontext.gregs[REG_RIP] + c->length + 4;
	} else {
		base = amx_register(u, c->rm | high_b << 3);
	}
	c->length += n;
	c->address = (uint8_t *)(uintptr_t)(base + amx_displacement(p, n));
}

static bool amx_decode(struct amx_code *c, const ucontext_t *u)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];

	*c = (struct amx_code){ .length = 5 };
	if (p[0] != 0xc4 || (p[1] & 31) != 2 || p[2] & 0x84) /* map 0F38, W 0, L 0 */
		return false;
	c->pp = p[2] & 3;
	c->vvvv = ~(p[2] >> 3) & 15;
	c->opcode = p[3];
	c->mod = p[4] >> 6;
	c->reg = p[4] >> 3 & 7;
	c->rm = p[4] & 7;
	if (c->mod != 3)
		amx_memory(c, p + 5, u, !(p[1] & 0x40), !(p[1] & 0x20));
	return true;
}

static void amx_move(const struct amx_code *c, bool store)
{
	for (int i = 0; i < AMX_ROWS; i++) {
		uint8_t *memory = c->address + i * c->stride;

		if (store && i < amx_rows(c->reg))
			memcpy(memory, amx.tile[c->reg][i], (size_t)amx_bytes(c->reg));
		if (store)
			continue;
		memset(amx.tile[c->reg][i], 0, AMX_LINE);
		if (i < amx_rows(c->reg))
			memcpy(amx.tile[c->reg][i], memory, (size_t)amx_bytes(c->reg));
	}
}

static void amx_product(const struct amx_code *c)
{
	int a = c->rm, b = c->vvvv;

	amx.products++;
	for (int m = 0; m < amx_rows(c->reg); m++)
		for (int n = 0; n < amx_bytes(c->reg) / 4; n++) {
			float sum;

			memcpy(&sum, &amx.tile[c->reg][m][4 * n], 4);
			for (int k = 0; k < amx_bytes(a) / 2; k++) {
				uint16_t x, y;

				memcpy(&x, &amx.tile[a][m][2 * k], 2);
				memcpy(&y, &amx.tile[b][k / 2][4 * n + 2 * (k % 2)], 2);
				sum += ht_bf16_to_f32(x) * ht_bf16_to_f32(y);
			}
			memcpy(&amx.tile[c->reg][m][4 * n], &sum, 4);
		}
}

static void amx_step(int sig, siginfo_t *info, void *context)
{
	static const char unknown[] = "an illegal instruction that is not AMX's\n";
	ucontext_t *u = context;
	struct amx_code c;
	bool known = amx_decode(&c, u);

	(void)sig;
	(void)info;
	if (known && c.opcode == 0x49 && c.pp == 0 && c.mod == 3) { /* tilerelease */
		memset(amx.config, 0, sizeof amx.config);
	} else if (known && c.opcode == 0x49 && c.pp == 0) { /* ldtilecfg */
		memcpy(amx.config, c.address, AMX_LINE);
		memset(amx.tile, 0, sizeof amx.tile);
	} else if (known && c.opcode == 0x49 && c.pp == 3) { /* tilezero */
		memset(amx.tile[c.reg], 0, sizeof amx.tile[0]);
	} else if (known && c.opcode == 0x4b &&
		   c.pp != 0) { /* tileloadd, tileloaddt1, tilestored */
		amx_move(&c, c.pp == 2);
	} else if (known && c.opcode == 0x5c && c.pp == 2 &&
		   amx_bytes(c.rm) == 4 * amx_rows(c.vvvv) && amx_rows(c.reg) == amx_rows(c.rm) &&
		   amx_bytes(c.reg) == amx_bytes(c.vvvv)) {
		amx_product(&c);
	} else {
		ssize_t n = write(2, unknown, sizeof unknown - 1);

		(void)n;
		_exit(1);
	}
	u->uc_mcontext.gregs[REG_RIP] += c.length;
}

static void amx_emulate(void)
{
	struct sigaction a = { .sa_sigaction = amx_step, .sa_flags = SA_SIGINFO };

	sigaction(SIGILL, &a, NULL);
}

#endif
