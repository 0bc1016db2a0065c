//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/docker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/sandboxtest"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/shim"
)

// bedImage is an image of .ci/beds.sh: BusyBox, and an environment variable.
const bedImage = "ebb-bed"

// TestMain is also the shim of the sandboxes, the hostile program in some, and
// a runner to be killed.
func TestMain(m *testing.M) {
	code := sandboxtest.Main(m, func(args []string) (int, error) {
		for args[0] == "--control" && exists(sandbox.WorkDir+"/wait") { // of this sandbox, before it connects
			time.Sleep(10 * time.Millisecond)
		}
		c, err := shim.Parse(args)
		if err != nil {
			return 2, err
		}
		return shim.Run(c)
	}, runner)
	_ = os.RemoveAll(builds)
	os.Exit(code)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// builds is the directory of the binary that static builds.
var builds string

// static builds these tests so that they run in an image that has no loader for them.
var static = sync.OnceValues(func() (string, error) {
	var err error
	if builds, err = os.MkdirTemp("", "ebb-docker-"); err != nil {
		return "", err
	}
	bin := filepath.Join(builds, "self")
	cmd := exec.Command("go", "test", "-c", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return bin, os.Chmod(builds, 0o755)
})

// bed starts the sandboxes of one test, each with a Keep directory.
type bed struct {
	*sandboxtest.Bed
	kind docker.Kind
}

// keeping gives each sandbox a Keep directory of its own.
type keeping struct {
	t    *testing.T
	kind docker.Kind
}

// Start implements sandbox.Kind.
func (k keeping) Start(s sandbox.Spec) (sandbox.Running, error) {
	if s.Keep == "" {
		s.Keep = k.t.TempDir()
	}
	return k.kind.Start(s)
}

func newBed(t *testing.T) *bed {
	t.Helper()
	host := counterpart.Need(t, "EBB_TEST_DOCKER")
	self, err := static()
	if err != nil {
		t.Fatal(err)
	}
	kind := docker.Kind{Host: host, Self: self, Image: bedImage}
	return &bed{sandboxtest.New(t, keeping{t, kind}), kind}
}

// docker runs the Docker client.
func (b *bed) docker(args ...string) string {
	b.T.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+b.kind.Host)
	var errs strings.Builder
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		b.T.Fatalf("docker %q: %v: %s%s", args, err, text, &errs)
	}
	return strings.TrimSpace(string(text))
}

// runner starts a sandbox as ebb run does, with a work directory, a Keep
// directory and a command, and waits to be killed with it.
func runner(args []string) {
	s := sandbox.Spec{Argv: args[2:], Env: []string{"PATH=" + sandbox.Search}, Work: args[0], Keep: args[1], Stdout: os.Stdout, Stderr: os.Stderr}
	if os.Geteuid() == 0 {
		s.User = &sandbox.Owner{UID: 4242, GID: 4242}
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	r, err := docker.Kind{Host: os.Getenv("EBB_TEST_DOCKER"), Self: self, Image: bedImage}.Start(s)
	if err != nil {
		panic(err)
	}
	_, err = r.Wait()
	panic(fmt.Sprint("the sandbox ended before its runner: ", err))
}
