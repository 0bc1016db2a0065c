package fetch

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of at most limit bytes.
func ReadFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only file
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: %w", name, ErrTooLarge)
	}
	return b, err
}
