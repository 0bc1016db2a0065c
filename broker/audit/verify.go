package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ebb-broker/ebb/attest/jose"
)

// maxLine is the maximum length of a line of an export.
const maxLine = 2 * maxCheckpoint

// Verify is VerifyKept without a check of passkey signatures.
func Verify(r io.Reader, keys jose.KeySet) (Report, error) { return VerifyKept(r, keys, nil) }

// VerifyKept proves an export: JSON lines, each an Entry, {"checkpoint":{...}} or, after its
// answer, {"kept":{...}}. signed verifies passkey signatures; nil skips that. Entries of one
// writer come in the order of Seq. Writers may interleave, and checkpoints may come anywhere. The
// error is a *Fault that names the first line that could not be proved; any other error means that
// r could not be read. The Report covers the lines up to there. Memory: 32 bytes for each entry,
// and some hundred bytes for each answer with stored texts.
func VerifyKept(r io.Reader, keys jose.KeySet, signed func(Signature) error) (Report, error) {
	return VerifyAgainst(r, keys, signed, nil)
}

// VerifyAgainst is VerifyKept, and also proves that the export continues an earlier state: for
// each writer in heads, it contains the entry with that number and hash.
func VerifyAgainst(r io.Reader, keys jose.KeySet, signed func(Signature) error, heads map[string]Head) (Report, error) {
	before := map[place]string{}
	for writer, h := range heads {
		before[place{writer, h.Seq}] = h.Hash
	}
	v := verifier{keys: signers{given: keys}, before: before, signed: signed, chains: map[string]*span{}, awaited: map[place]claim{}}
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
