package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user    = 65532 // as in the Dockerfile and docs/deploy/kubernetes
	dataDir = "var/lib/ebb"
)

// layer returns the only layer of an image: the binary, the TLS root certificates, and
// the data directory, which only the user can enter, because it will hold keys.
func layer(binary string, when time.Time) (v1.Layer, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte // nil for a directory
	}{
		{"ebb", 0o755, 0, program},
		{"etc/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots()},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{dataDir + "/", 0o700, user, nil},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: when, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		if f.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// roots returns the certificate authorities of Mozilla's store in PEM, without
// those that it trusts for older certificates only: PEM cannot express that.
func roots() []byte {
	var text bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // writes to a Buffer do not fail
		}
	}
	return text.Bytes()
}
