package audit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"

	"github.com/ebb-broker/ebb/attest/jose"
)

type verifier struct {
	keys    signers
	before  map[place]string // hashes by place that the caller held before
	filter  *Filter          // the filter in the export's first line; nil = none
	part    part             // of a filtered export
	proof   *proof           // nil = the export is not an inclusion proof
	signed  func(Signature) error
	kept    Answers
	line    int
	chains  map[string]*span
	order   []*span
	awaited map[place]claim // heads whose entry has not been read yet
	counts  Report
}

type place struct {
	writer string
	seq    int64
}

// claim is the statement of a checkpoint about one place.
type claim struct {
	hash string
	line int
	kid  string // of the checkpoint's key
}

// Prefixes of the lines of an export that are not entries.
const (
	checkpointLine = `{"checkpoint"`
	keptLine       = `{"kept"`
	filterLine     = `{"filter"`
)

func begins(line []byte, with string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte(with))
}

// IsEntry reports whether a line of an export is an entry. Other lines are checkpoints and stored
// texts of answers.
func IsEntry(line []byte) bool {
	return !begins(line, checkpointLine) && !begins(line, keptLine) && !begins(line, filterLine) && !begins(line, statementLine) && !begins(line, betweenLine)
}

func (v *verifier) fault(why string) error { return &Fault{Line: v.line, Why: why} }

func (v *verifier) read(line []byte) error {
	if begins(line, checkpointLine) {
		return v.checkpoint(line)
	}
	if begins(line, keptLine) {
		return v.keeps(line)
	}
	if begins(line, filterLine) {
		return v.filtered(line)
	}
	if begins(line, statementLine) {
		return v.readStatement(line)
	}
	var e Entry
	between := begins(line, betweenLine)
	if between {
		var err error
		if e, err = v.readBetween(line); err != nil {
			return err
		}
	} else if err := e.UnmarshalJSON(line); err != nil {
		return v.fault(err.Error())
	}
	if why := v.entry(e); why != "" {
		return &Fault{Line: v.line, Writer: e.Writer, Seq: e.Seq, Why: why}
	}
	if between {
		v.counts.Between++
	} else {
		v.counts.Entries++
	}
	if v.proof != nil && e.Kind == KeyAdded {
		// In a chain with gaps, a checkpoint of a trusted key does not cover every earlier entry.
		// So no key is trusted because an entry of a proof names it.
		return nil
	}
	for _, read := range []func(Entry) error{v.kept.Read, v.keys.read} {
		if err := read(e); err != nil {
			return &Fault{Line: v.line, Writer: e.Writer, Seq: e.Seq, Why: err.Error()}
		}
	}
	if e.Kind == LossAccepted {
		v.counts.Losses++
	}
	return nil
}

// keeps checks a line with the stored texts of an answer.
func (v *verifier) keeps(line []byte) error {
	if v.proof != nil {
		return v.fault("an inclusion proof has no stored texts of answers")
	}
	k, err := readKept(line)
	if err != nil {
		return v.fault(err.Error())
	}
	s, err := v.kept.Judge(k)
	if err != nil {
		return v.fault(err.Error())
	}
	v.counts.Kept++
	if s == nil || v.signed == nil {
		return nil
	}
	if err := v.signed(*s); err != nil {
		return v.fault("the stored texts of this answer do not prove it: " + err.Error())
	}
	if s.KeyHash == "" {
		v.counts.Unregistered++
		return nil
	}
	v.counts.Signed++
	return nil
}

// entry links e to its chain; it returns why it could not.
func (v *verifier) entry(e Entry) string {
	if e.Writer == "" || e.Seq < 1 {
		return "the entry has no place in a chain"
	}
	if sum := Sum(e); sum == "" || sum != e.Hash {
		return "the entry was changed: its content does not have the hash it claims"
	}
	if want, held := v.before[place{e.Writer, e.Seq}]; held {
		if want != e.Hash {
			return "the earlier export or checkpoint proves that this entry was another one"
		}
		delete(v.before, place{e.Writer, e.Seq})
	}
	if v.filter != nil {
		v.part.entry(e)
		return ""
	}
	if v.proof != nil {
		return v.proof.entry(e, v.line)
	}
	s := v.chains[e.Writer]
	if s == nil {
		if why := startsChain(e); why != "" {
			return why
		}
		s = &span{Span: Span{Writer: e.Writer, First: e.Seq, From: e.At}}
		v.chains[e.Writer] = s
		v.order = append(v.order, s)
	} else if why := s.follows(e); why != "" {
		return why
	}
	s.add(e)
	at := place{e.Writer, e.Seq}
	if c, ok := v.awaited[at]; ok {
		if c.hash != e.Hash {
			return fmt.Sprintf("the checkpoint of line %d proves that this entry was another one", c.line)
		}
		delete(v.awaited, at)
		s.Sealed = max(s.Sealed, e.Seq)
		v.keys.seals(c.kid, e.Writer, e.Seq)
	}
	return ""
}

func (v *verifier) checkpoint(line []byte) error {
	var wrap struct {
		Checkpoint Checkpoint `json:"checkpoint"`
	}
	if err := json.Unmarshal(line, &wrap); err != nil {
		return v.fault(err.Error())
	}
	c := wrap.Checkpoint
	again, err := c.MarshalJSON()
	if err != nil {
		return v.fault(err.Error())
	}
	if canon, err := jcs.Transform(line); err != nil || string(canon) != `{"checkpoint":`+string(again)+`}` {
		return v.fault(errCheckpoint.Error())
	}
	kid, counts, err := v.keys.verify(c)
	if err != nil {
		return v.fault("the checkpoint is not signed by a known key as it stands: " + err.Error())
	}
	if !counts {
		v.counts.Revoked++
		return nil
	}
	if v.filter != nil {
		v.part.checkpoint(c)
		v.counts.Checkpoints++
		return nil
	}
	for writer, head := range c.Heads {
		if why := v.head(writer, head, kid); why != "" {
			return &Fault{Line: v.line, Writer: writer, Seq: head.Seq, Why: why}
		}
	}
	v.counts.Checkpoints++
	return nil
}

// head compares one head of a checkpoint with the chain, now or when the chain has reached it.
func (v *verifier) head(writer string, h Head, kid string) string {
	if v.proof != nil {
		return v.proof.head(writer, h, claim{h.Hash, v.line, kid})
	}
	at := place{writer, h.Seq}
	s := v.chains[writer]
	if s == nil || h.Seq > s.Last {
		if c, ok := v.awaited[at]; ok && c.hash != h.Hash {
			return fmt.Sprintf("the checkpoint of line %d names another hash", c.line)
		}
		v.awaited[at] = claim{h.Hash, v.line, kid}
		return ""
	}
	if h.Seq >= s.First {
		if s.hash(h.Seq) != h.Hash {
			return "the checkpoint proves that the entry at this place was another one"
		}
		s.Sealed = max(s.Sealed, h.Seq)
		v.keys.seals(kid, writer, h.Seq)
	}
	return ""
}

// settle reports the heads whose entries are missing.
func (v *verifier) settle() error {
	partial := slices.ContainsFunc(v.order, func(s *span) bool { return s.First > 1 })
	var faults []*Fault
	for at, c := range v.awaited {
		s := v.chains[at.writer]
		switch {
		case s == nil && partial:
			if !slices.Contains(v.counts.Missing, at.writer) {
				v.counts.Missing = append(v.counts.Missing, at.writer)
			}
		case s == nil:
			faults = append(faults, &Fault{c.line, at.writer, at.seq, "the whole writer was removed: the checkpoint proves that it wrote"})
		case at.seq < s.First:
		default:
			faults = append(faults, &Fault{c.line, at.writer, at.seq,
				fmt.Sprintf("the end was cut off: the checkpoint proves this entry, the export ends at seq %d", s.Last)})
		}
	}
	slices.Sort(v.counts.Missing)
	if len(faults) == 0 {
		return v.reaches()
	}
	return firstFault(faults)
}

// reaches checks the caller's keys and the heads that the caller had before.
func (v *verifier) reaches() error {
	if v.filter != nil {
		return &FilteredError{Filter: *v.filter, Entries: v.counts.Entries, Signed: v.part.signed()}
	}
	if v.proof != nil {
		if len(v.before) > 0 {
			return v.fault("an inclusion proof does not show that the log continues an earlier state: verify a whole export against it")
		}
		if err := v.proof.settle(); err != nil {
			return err
		}
	}
	var gone []*Fault
	for at := range v.before {
		gone = append(gone, &Fault{Line: v.line, Writer: at.writer, Seq: at.seq, Why: "the export does not continue the earlier state: this entry is missing"})
	}
	if len(gone) > 0 {
		return slices.MinFunc(gone, func(a, b *Fault) int { return strings.Compare(a.Writer, b.Writer) })
	}
	if err := v.keys.fault(); err != nil {
		return v.fault(err.Error())
	}
	return nil
}

func (v *verifier) report() Report {
	r := v.counts
	r.Keys = v.keys.used()
	for _, s := range v.order {
		r.Writers = append(r.Writers, s.Span)
		r.Partial = r.Partial || s.First > 1
		r.Unsealed += int(s.Last - max(s.Sealed, s.First-1))
	}
	r.Partial = r.Partial || len(r.Missing) > 0
	r.Unkept = v.kept.unkept()
	return r
}

// span is a chain as far as it was read.
type span struct {
	Span
	hashes [][32]byte // of First, First+1, ...
}

func (s *span) follows(e Entry) string {
	switch {
	case e.Seq < s.First:
		return fmt.Sprintf("the order was changed: the export already starts at seq %d", s.First)
	case e.Seq <= s.Last && s.hash(e.Seq) == e.Hash:
		return "the entry is here twice"
	case e.Seq <= s.Last:
		return "the chain was forked: another entry has the same place"
	case e.Seq != s.Last+1:
		return fmt.Sprintf("entries are missing: the one before it is seq %d", s.Last)
	case e.Prev != s.Hash:
		return "the entry before it was changed: it does not have the hash that this one links to"
	case e.At.Before(s.To):
		return "the time of the entry is earlier than that of the entry before it"
	}
	return ""
}

func (s *span) hash(seq int64) string {
	h := s.hashes[seq-s.First]
	return hex.EncodeToString(h[:])
}

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

// readLine returns one line without its newline. It returns a last line that has no newline together
// with io.EOF.
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
