package leaseapi

import (
	"hash/crc32"
	"net/url"
	"strconv"
)

// Checksum returns the value of [HeaderCheck] for a query, in hexadecimal: the CRC-32 (IEEE) of
// its parameters, sorted by name and escaped as [url.Values.Encode] does it. So a gateway may
// reorder parameters, or escape them in another way.
func Checksum(query url.Values) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(query.Encode()))), 16)
}
