package main

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: releasetools ARCHIVE VERSION REVISION OS/ARCH=BINARY...; SOURCE_DATE_EPOCH is the time of the image")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "releasetools:", err)
		os.Exit(1)
	}
}

// run writes an archive of one index with an image for each OS/ARCH=BINARY.
func run(archive, version, revision string, platforms []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	when := time.Unix(seconds, 0).UTC()
	labels := map[string]string{
		"org.opencontainers.image.title":    "ebb",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		name, binary, _ := strings.Cut(p, "=")
		system, arch, ok := strings.Cut(name, "/")
		if !ok || binary == "" {
			return fmt.Errorf("%q is not OS/ARCH=BINARY", p)
		}
		platform := v1.Platform{OS: system, Architecture: arch}
		img, err := image(binary, platform, labels, when)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	dir, err := os.MkdirTemp(filepath.Dir(archive), "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The name by which `docker load` and `ctr images import` tag it.
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "ebb:" + version})
	if err := at.AppendIndex(index, named); err != nil {
		return err
	}
	return pack(dir, archive, when)
}

// image returns the image of one platform. Its settings are those of the Dockerfile.
func image(binary string, platform v1.Platform, labels map[string]string, when time.Time) (v1.Image, error) {
	l, err := layer(binary, when)
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), mutate.Addendum{
		Layer: l, History: v1.History{CreatedBy: ".ci/release", Created: v1.Time{Time: when}},
	})
	if err != nil {
		return nil, err
	}
	old, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c := old.DeepCopy()
	c.OS, c.Architecture, c.Created = platform.OS, platform.Architecture, v1.Time{Time: when}
	c.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), Entrypoint: []string{"/ebb"}, Cmd: []string{"serve"},
		Env: []string{"EBB_DATA_DIR=/" + dataDir}, Volumes: map[string]struct{}{"/" + dataDir: {}},
		ExposedPorts: map[string]struct{}{"8420/tcp": {}}, Labels: labels,
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/ebb", "health"}, Interval: 30 * time.Second, Timeout: 10 * time.Second, StartPeriod: 20 * time.Second, Retries: 3,
		},
	}
	return mutate.ConfigFile(img, c)
}

// pack writes the files of dir to a tar archive, in the order of their names.
func pack(dir, archive string, when time.Time) error {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: when, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
