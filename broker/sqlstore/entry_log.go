package sqlstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
)

// entryLog is a file beside a SQLite database that one process owns. Entries about requests
// through egress become durable there, with one write for all requests that wait, and their
// rows follow in bulk. The file is written from its start again after each commit.
//
// The file is a sequence of frames. Integers are little-endian:
//
//	4 bytes  length of the entry
//	4 bytes  CRC-32C of the 8 bytes that follow and of the entry
//	8 bytes  round: a random number that changes when the file is written from its start
//	         again, so that frames of earlier rounds are not read
//	         the entry as canonical JSON, with its place in the chain
//
// The sequence ends at the first bytes that are not a frame of the first frame's round.
type entryLog struct {
	file  logFile // nil: every entry is committed to the database
	round uint64
	end   int64
	// broken is set after a failed write, whose bytes on disk are unknown, and after a commit with
	// an unknown outcome, which SQLite may restore after a crash. While it is set, nothing is
	// written to the file; the next commit of entries to the database clears it.
	broken  bool
	torn    bool          // frames of a failed write may follow end
	waiting []audit.Entry // durable in the file, without a row in the database
	count   atomic.Int64  // len(waiting), for other goroutines
	due     *time.Timer   // runs while entries wait: their rows are inserted after delay at the latest
	delay   time.Duration
	buf     []byte
}

// logFile is an *os.File whose writes are durable when they return.
type logFile interface {
	io.WriterAt
	io.Closer
}

const (
	egressKinds = "egress."
	logSuffix   = "-egress" // follows the path of the database
	logSize     = 1 << 20   // bytes of the file, allocated once
	frameHead   = 16
	maxWaiting  = 256         // entries; further units share the commit that inserts their rows
	retryTime   = time.Second // wait after a failed flush
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ofEgress reports whether all entries are about requests through egress.
func ofEgress(entries []audit.Entry) bool {
	for i := range entries {
		if !strings.HasPrefix(entries[i].Kind, egressKinds) {
			return false
		}
	}
	return len(entries) > 0
}

// noLog returns a log without a file.
func noLog() *entryLog {
	l := &entryLog{due: time.NewTimer(time.Hour)}
	l.due.Stop()
	return l
}

// readLog opens or creates the file of a log, locks it, and returns its contents.
func readLog(path string) (f *os.File, b []byte, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_DSYNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("database: the log of egress entries %s cannot be opened: make it a regular file that this user can read and write: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, nil, fmt.Errorf("database: another process uses %s: stop that process, or configure another database for this ebb: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file: move it away")
	}
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(f, logSize))
	}
	if err == nil {
		err = allocate(f, int64(len(b)))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("database: the log of egress entries %s cannot be read or written: check its disk: %w", path, err)
	}
	return f, b, nil
}

// allocate extends a file to its full size, so that later writes change no metadata, and makes
// its name durable.
func allocate(f *os.File, size int64) error {
	if _, err := f.WriteAt(make([]byte, logSize-size), size); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// appendFrame appends the frame of an entry.
func appendFrame(b []byte, round uint64, e *audit.Entry) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, frameHead)...)
	b, err := e.AppendJSON(b)
	if err != nil {
		return b, err
	}
	head := b[start:]
	binary.LittleEndian.PutUint32(head, uint32(len(head)-frameHead))
	binary.LittleEndian.PutUint64(head[8:], round)
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(head[8:], castagnoli))
	return b, nil
}

// readFrames returns the entries of the first round in b. A torn frame ends the
// sequence: its write did not return, so its entry was never acknowledged.
func readFrames(b []byte) ([]audit.Entry, error) {
	var all []audit.Entry
	var round uint64
	for len(b) > frameHead {
		n := binary.LittleEndian.Uint32(b)
		if n == 0 || uint64(n) > uint64(len(b)-frameHead) {
			break
		}
		frame := b[:frameHead+n]
		r := binary.LittleEndian.Uint64(frame[8:])
		if crc32.Checksum(frame[8:], castagnoli) != binary.LittleEndian.Uint32(frame[4:]) || len(all) > 0 && r != round {
			break
		}
		var e audit.Entry
		if err := e.UnmarshalJSON(frame[frameHead:]); err != nil {
			return nil, fmt.Errorf("frame %d: %w", len(all)+1, err)
		}
		all, round, b = append(all, e), r, b[len(frame):]
	}
	return all, nil
}

// withoutRow returns those entries of one round that the database lacks. They must continue the
// chain there.
func withoutRow(ctx context.Context, s *session, entries []audit.Entry) ([]audit.Entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	writer := entries[0].Writer
	chain, err := readChain(ctx, s, writer)
	if err != nil {
		return nil, err
	}
	head := chain.Head()
	foreign := func(e audit.Entry) error {
		return fmt.Errorf("its entry %d of chain %s does not continue the database, where this chain ends at entry %d: restore the database that belongs to this file, "+
			"or move the file away; its entries are then missing in the audit log", e.Seq, writer, head.Seq)
	}
	for _, e := range entries {
		if e.Seq == head.Seq && e.Hash != head.Hash {
			return nil, foreign(e)
		}
	}
	entries = after(entries, head)
	for i := range entries {
		e := entries[i]
		// A run commits the first entry of its chain to the database.
		if err := chain.Link(&entries[i]); err != nil || entries[i].Hash != e.Hash || e.Seq == 1 {
			return nil, foreign(e)
		}
	}
	return entries, nil
}

// after returns the entries of one chain that follow its entry head.
func after(entries []audit.Entry, head audit.Head) []audit.Entry {
	for len(entries) > 0 && entries[0].Seq <= head.Seq {
		entries = entries[1:]
	}
	return entries
}

// close empties the file if all entries have rows. An older database that is restored later then
// starts with an empty log.
func (l *entryLog) close() {
	if l.due.Stop(); l.file == nil {
		return
	}
	if len(l.waiting) == 0 {
		_, _ = l.file.WriteAt(make([]byte, frameHead), 0) // otherwise the next start would read entries that are in the database
	}
	_ = l.file.Close()
}

// mend removes the frames of a failed write, whose entries were never acknowledged. Otherwise
// these frames could follow a later entry that takes the place of the first of them. If the disk
// refuses the removal too, commits to the database continue, but ebb may refuse the file after a
// crash.
func (l *entryLog) mend() {
	if !l.torn {
		return
	}
	_, err := l.file.WriteAt(make([]byte, frameHead), l.end)
	l.torn = err != nil
}

// rewind makes the next write begin at the start of the file, when all entries have rows.
func (l *entryLog) rewind() {
	l.due.Stop()
	clear(l.waiting)
	l.waiting = l.waiting[:0]
	l.count.Store(0)
	if !l.torn {
		l.end, l.broken, l.round = 0, false, rand.Uint64()
	}
}

// resume drops the waiting entries that are already in the database. It returns the chain,
// continued by the remaining ones.
func (l *entryLog) resume(chain *audit.Chain) (*audit.Chain, error) {
	l.waiting = after(l.waiting, chain.Head())
	l.count.Store(int64(len(l.waiting)))
	if n := len(l.waiting); n > 0 && l.waiting[0].Prev == chain.Head().Hash {
		return audit.ResumeChain(l.waiting[n-1])
	}
	return chain, nil
}

// logged makes the entries of the units durable in the log. It returns false when they need a
// commit to the database.
func (c *committer) logged(units []*unit) bool {
	l := c.entryLog
	if l.file == nil || l.broken || c.sess == nil || slices.ContainsFunc(units, func(u *unit) bool { return !u.egress }) {
		return false
	}
	had := len(l.waiting)
	for _, u := range units {
		l.waiting = append(l.waiting, u.entries...)
	}
	mark := c.chain.Mark()
	err := l.write(c.chain, had)
	if err != nil {
		if l.torn {
			c.log.Error("the log of egress entries cannot be written: entries are committed to the database instead, which is slower; check the disk", "error", err)
		}
		c.chain.Reset(mark)
		clear(l.waiting[had:])
		l.waiting = l.waiting[:had]
		return false
	}
	c.durable.Store(&durable{head: c.chain.Head()})
	l.count.Store(int64(len(l.waiting)))
	if had == 0 {
		l.due.Reset(l.delay)
	}
	for _, u := range units {
		u.done <- nil
	}
	return true
}

var errLogFull = errors.New("the log of egress entries is full")

// write links the waiting entries from index from on to the chain, and writes their frames.
func (l *entryLog) write(chain *audit.Chain, from int) error {
	if len(l.waiting) > maxWaiting {
		return errLogFull
	}
	b := l.buf[:0]
	for i := from; i < len(l.waiting); i++ {
		err := chain.Link(&l.waiting[i])
		if err == nil {
			b, err = appendFrame(b, l.round, &l.waiting[i])
		}
		if err != nil {
			return err
		}
	}
	l.buf = b
	if l.end+int64(len(b)) > logSize {
		return errLogFull
	}
	if _, err := l.file.WriteAt(b, l.end); err != nil {
		l.broken, l.torn = true, true
		return err
	}
	l.end += int64(len(b))
	return nil
}

// flush inserts the rows of the waiting entries.
func (c *committer) flush() {
	if len(c.entryLog.waiting) == 0 {
		return
	}
	if err := c.attempt(nil); err != nil {
		err = c.engine.explain(err)
		c.outcomes.fail(err)
		c.log.Error("rows of egress entries could not be inserted; the entries are safe in the log, and ebb tries again", "retry_in", retryTime, "entries", len(c.entryLog.waiting), "error", err)
		c.entryLog.due.Reset(retryTime)
		return
	}
	c.outcomes.succeeded(false)
}

// flushed waits until every entry that was durable before the call has a row. It returns at once if
// none of the kinds can be an egress kind. Without kinds it waits for all; a kind that ends in "."
// is a prefix.
func (c *committer) flushed(ctx context.Context, kinds ...string) error {
	if c.entryLog.count.Load() == 0 {
		return nil
	}
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return k == "" || strings.HasPrefix(k, egressKinds) }) {
		return nil // entries of other kinds are committed with their rows
	}
	u := &unit{work: func(context.Context, *session, *unit) error { return nil }}
	if err := c.put(ctx, u); err != nil {
		return err
	}
	select {
	case err := <-u.done:
		return err
	case <-c.gone:
		return errClosed
	case <-ctx.Done(): // the unit changes nothing, so that its outcome does not matter
		return ctx.Err()
	}
}
