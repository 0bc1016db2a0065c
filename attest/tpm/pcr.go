package tpm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const pcrCount = 8 * pcrBytes

// pcrs are SHA-256 values of PCRs by index.
type pcrs map[int][]byte

// resettable are PCRs that any software sets back to zero: debug and application
// support (PC Client Platform TPM Profile, 4.6).
var resettable = []int{16, 23}

// tells says whether a value, in hex, of a PCR says what was started: not where any
// software sets the PCR back, and not where nothing was measured into it. PCRs start
// with zeros, those of the dynamic root of trust (17 to 22) with ones.
func tells(i int, value string) bool {
	return !slices.Contains(resettable, i) && strings.Trim(value, "0") != "" && strings.Trim(value, "f") != ""
}

// parseIndex reads the index of a PCR in its one spelling.
func parseIndex(text string) (int, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= pcrCount || strconv.Itoa(i) != text {
		return 0, fmt.Errorf("not the index of a PCR, 0 to %d", pcrCount-1)
	}
	return i, nil
}

// of says whether v are the values that q quotes, all of them and no others.
func (v pcrs) of(q *quote) error {
	have := slices.Sorted(maps.Keys(v))
	if !slices.Equal(have, q.indexes) {
		return errors.New("the values are of other PCRs than the quote")
	}
	h := sha256.New()
	for _, i := range have {
		h.Write(v[i])
	}
	if !bytes.Equal(h.Sum(nil), q.digest) {
		return errors.New("the digest of the quote is not that of the values")
	}
	return nil
}

// allowed says whether each pinned PCR is there with one of its values.
func (v pcrs) allowed(pinned map[int][][]byte) error {
	for _, i := range slices.Sorted(maps.Keys(pinned)) {
		got, quoted := v[i]
		if !quoted {
			return fmt.Errorf("PCR %d is not in the quote", i)
		}
		if !slices.ContainsFunc(pinned[i], func(want []byte) bool { return bytes.Equal(want, got) }) {
			return fmt.Errorf("PCR %d has another value", i)
		}
	}
	return nil
}
