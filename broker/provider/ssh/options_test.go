package ssh_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
)

func TestOptionsThatAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*ssh.Options){
		"groups is empty":          func(o *ssh.Options) { o.Groups = nil },
		"logins is empty":          func(o *ssh.Options) { o.Groups["x"] = ssh.Group{} },
		`"a@b" is no login`:        func(o *ssh.Options) { o.Groups["x"] = ssh.Group{Logins: []string{"a@b"}} },
		`"*" is no login`:          func(o *ssh.Options) { o.Groups["x"] = ssh.Group{Logins: []string{"*"}} },
		`"a,root" is no login`:     func(o *ssh.Options) { o.Groups["x"] = ssh.Group{Logins: []string{"a,root"}} },
		`"*" is no name`:           func(o *ssh.Options) { o.Groups["*"] = ssh.Group{Logins: []string{"a"}} },
		`"*.*.example" is no name`: func(o *ssh.Options) { o.Groups["*.*.example"] = ssh.Group{Logins: []string{"a"}} },
		`"Web" is no name`:         func(o *ssh.Options) { o.Groups["Web"] = ssh.Group{Logins: []string{"a"}} },
		`"Run" is no name`:         func(o *ssh.Options) { o.Commands["Run"] = "true" },
		"printable ASCII":          func(o *ssh.Options) { o.Commands["x"] = "true\nfalse" },
		"commands, x":              func(o *ssh.Options) { o.Commands["x"] = "" },
		"no CIDR range":            func(o *ssh.Options) { o.SourceAddress = []string{"10.0.0.1"} },
		"it must be 10.0.0.0/8":    func(o *ssh.Options) { o.SourceAddress = []string{"10.1.0.0/8"} },
		"groups, x, source_address": func(o *ssh.Options) {
			o.Groups["x"] = ssh.Group{Logins: []string{"a"}, SourceAddress: []string{"!10.0.0.0/8"}}
		},
		"exactly one group": func(o *ssh.Options) {
			o.Principals, o.Groups = "login", map[string]ssh.Group{"x": {Logins: []string{"a"}}, "y": {Logins: []string{"a"}}}
		},
		"is no pattern": func(o *ssh.Options) {
			o.Principals, o.Groups = "login", map[string]ssh.Group{"*.example.com": {Logins: []string{"a"}}}
		},
		`principals is "host"`:         func(o *ssh.Options) { o.Principals = "host" },
		"max_ttl":                      func(o *ssh.Options) { o.MaxTTL = "48h" },
		"krl.refresh is missing":       func(o *ssh.Options) { o.KRL.Refresh = "" },
		"krl.refresh is \"0s\"":        func(o *ssh.Options) { o.KRL.Refresh = "0s" },
		"whole seconds":                func(o *ssh.Options) { o.KRL.Refresh = "1500ms" },
		"krl.file must be an absolute": func(o *ssh.Options) { o.KRL.File = "krl" },
		"krl.url must be https":        func(o *ssh.Options) { o.KRL.URL = "http://hosts.example/krl" },
		"krl.url is no URL":            func(o *ssh.Options) { o.KRL.URL = "https://bo:pw@hosts.example/krl" },
		"kill.command must begin":      func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{"kill"}} },
		"kill.timeout":                 func(o *ssh.Options) { o.Kill = &ssh.Kill{Command: []string{"/bin/true"}, Timeout: "1h"} },
		"ca.trusted needs":             func(o *ssh.Options) { o.CA.Trusted = []string{file} },
		"does not rotate":              func(o *ssh.Options) { o.CA = ssh.CAOptions{KeyFile: file, RotateEvery: "720h"} },
		"ca.rotate_every":              func(o *ssh.Options) { o.CA.RotateEvery = "1h" },
		"holds no OpenSSH private key": func(o *ssh.Options) { o.CA.KeyFile = file },
		"ca.key_file: secret: open":    func(o *ssh.Options) { o.CA.KeyFile = file + "2" },
	} {
		o := options()
		spoil(&o)
		_, err := ssh.New(ssh.Config{Name: "ssh", Options: o, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	// All at once, and a check of a configuration makes nothing.
	o := options()
	o.MaxTTL, o.KRL.Refresh, o.Principals = "x", "", "x"
	_, err := ssh.New(ssh.Config{Name: "ssh", Options: o, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if n := strings.Count(err.Error(), "\n") + 1; n != 3 {
		t.Errorf("%d problems were reported: %v", n, err)
	}
	d, err := ssh.New(ssh.Config{Name: "ssh", Options: options(), Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authorities(); err == nil {
		t.Error("a driver without a CA publishes one")
	}
}
