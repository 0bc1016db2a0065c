package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/bwrap"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/docker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/none"
)

// TestKindOf: bubblewrap creates the sandbox unless it is not installed and an
// image is named; an image that is ignored causes a notice.
func TestKindOf(t *testing.T) {
	empty, has := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(has, "bwrap"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := docker.Kind{Image: "tools:1"}
	for _, tt := range []struct {
		name, path, kind, image string
		want                    sandbox.Kind // nil = refused
		says                    string
	}{
		{"auto, an image, no bubblewrap", empty, "auto", "tools:1", daemon, ""},
		{"auto, an image, bubblewrap", has, "auto", "tools:1", bwrap.Kind{}, "bubblewrap creates"},
		{"auto, no image, no bubblewrap", empty, "auto", "", bwrap.Kind{}, ""},
		{"auto, no image, bubblewrap", has, "auto", "", bwrap.Kind{}, ""},
		{"auto, no name of an image", empty, "auto", "--privileged", nil, ""},
		{"bwrap", empty, "bwrap", "", bwrap.Kind{}, ""},
		{"bwrap, an image", empty, "bwrap", "tools:1", nil, ""},
		{"docker", has, "docker", "tools:1", daemon, ""},
		{"docker, no image", has, "docker", "", nil, ""},
		{"none", has, "none", "", none.Kind{}, ""},
		{"none, an image", has, "none", "tools:1", nil, ""},
		{"another", has, "podman", "", nil, ""},
		{"none at all", has, "", "", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PATH", tt.path)
			var said strings.Builder
			in := &sandboxed{}
			err := runCommand{&cli{stderr: &said}}.kindOf(&runFlags{kind: tt.kind, image: tt.image, pids: defaultPIDs}, in)
			if in.kind != tt.want || (err == nil) != (tt.want != nil) {
				t.Errorf("%#v, %v", in.kind, err)
			}
			if tt.says == "" && said.Len() > 0 || !strings.Contains(said.String(), tt.says) {
				t.Errorf("says %q", &said)
			}
		})
	}
}
