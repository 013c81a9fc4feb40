"""The checksum of records and of blocks of tables: CRC-32C, masked as TensorFlow masks it."""
import struct

POLYNOMIAL = 0x82f63b78


def crc32c(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (POLYNOMIAL if c & 1 else 0)
    c ^= 0xffffffff
    return struct.pack('<I', ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff)
