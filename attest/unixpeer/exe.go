package unixpeer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	maxExe  = 128 << 20
	maxExes = 4
	exeTime = 5 * time.Second
)

// digest returns the SHA-256 of the program of a process in hex. The container can keep
// the file on a file system that never answers, and a read from it cannot be
// interrupted. So digest returns after exeTime at the latest, and at most maxExes reads
// are in progress at a time.
func (a *Attestor) digest(ctx context.Context, pid int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exeTime)
	defer cancel()
	select {
	case a.exes <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	type result struct {
		sum string
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-a.exes }()
		sum, err := hashFile(ctx, filepath.Join(a.cfg.Proc, strconv.Itoa(pid), "exe"))
		done <- result{sum, err}
	}()
	select {
	case r := <-done:
		return r.sum, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxExe {
		return "", errors.Join(errors.New("the program is not a regular file of at most 128 MiB"), err)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(contextReader{ctx, f}, maxExe+1))
	if err == nil && n > maxExe {
		err = errors.New("the program is larger than 128 MiB")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// contextReader returns the error of ctx once ctx is done.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
