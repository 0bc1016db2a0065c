package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"ebb/attest/jose"
)

// maxLine bounds one line of an export.
const maxLine = 2 * maxCheckpoint

// Verify is VerifyKept by hashes alone.
func Verify(r io.Reader, keys jose.KeySet) (Report, error) { return VerifyKept(r, keys, nil) }

// VerifyKept proves an export: JSON lines, each an Entry, {"checkpoint":{...}} or, after the
// answer that it is of, {"kept":{...}}. signed judges what a passkey signed; nil = nobody does.
// Entries of one writer come in the order of Seq; writers may interleave, and
// checkpoints may come anywhere. Every line is proved or the error is a *Fault
// that names it; any other error means that r could not be read. The Report
// covers what was read until then. It keeps 32 bytes in memory per entry, and some hundred
// per answer of which something was kept.
func VerifyKept(r io.Reader, keys jose.KeySet, signed func(Signature) error) (Report, error) {
	return VerifyAgainst(r, keys, signed, nil)
}

// VerifyAgainst is VerifyKept, and proves that the export goes on from what was held before: at each place
// of heads, by writer, it has the entry with that hash.
func VerifyAgainst(r io.Reader, keys jose.KeySet, signed func(Signature) error, heads map[string]Head) (Report, error) {
	before := map[place]string{}
	for writer, h := range heads {
		before[place{writer, h.Seq}] = h.Hash
	}
	v := verifier{keys: signers{given: keys}, before: before, signed: signed, chains: map[string]*span{}, owed: map[place]claim{}}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if err == io.EOF && len(line) == 0 {
			break
		}
		v.line++
		if errors.Is(err, errLongLine) {
			return v.report(), v.fault("the line is longer than any line of a record")
		}
		if err != nil && err != io.EOF {
			return v.report(), fmt.Errorf("read line %d of the export: %w", v.line, err)
		}
		if fault := v.read(line); fault != nil {
			return v.report(), fault
		}
		if err != nil {
			break
		}
	}
	fault := v.settle()
	if fault != nil {
		return v.report(), fault
	}
	return v.report(), nil
}

var errLongLine = errors.New("line too long")

// readLine returns one line without its newline. The text of a last line
// comes with io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line == nil && err == nil {
			return part[:len(part)-1], nil
		}
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, errLongLine
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(line, []byte{'\n'}), err
	}
}
