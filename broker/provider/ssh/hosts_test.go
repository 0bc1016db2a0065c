package ssh_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider/ssh"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYyHV3nvHFh0Q7M2j+LzrGVlkFEJA/Ld+eCrZEr3ueC"

// TestReaches: a scope covers only the hosts of its group, at their ports. With a pattern, it
// covers the one host that the scope names.
func TestReaches(t *testing.T) {
	t.Parallel()
	d := newRig(t, func(o *ssh.Options) {
		o.Groups = map[string]ssh.Group{
			"web":  {Logins: []string{"deploy"}, Hosts: []string{"web-1.example.com", "web-2.example.com:2222"}, HostKeys: []string{hostKey + " root@web", "@cert-authority " + hostKey}},
			"mail": {Logins: []string{"deploy"}, Hosts: []string{"mail.example.com"}}, "*.db.example": {Logins: []string{"dba"}, HostKeys: []string{hostKey}},
		}
	})
	for _, c := range []struct {
		scope, host string
		port        uint16
		want        bool
	}{
		{"ssh:web/deploy:login", "web-1.example.com", 22, true}, {"ssh:web/deploy:login", "web-2.example.com", 2222, true}, {"ssh:web/deploy:login ssh:mail/deploy:login", "mail.example.com", 22, true},
		{"ssh:web/deploy:login", "web-1.example.com", 2222, false}, {"ssh:web/deploy:login", "web-2.example.com", 22, false}, {"ssh:web/deploy:login", "mail.example.com", 22, false},
		{"ssh:web/deploy:login", "web-3.example.com", 22, false}, {"ssh:db1.db.example/dba:login", "db1.db.example", 22, true}, {"ssh:db1.db.example/dba:login", "db2.db.example", 22, false},
		{"ssh:db1.db.example/dba:login", "db1.db.example", 2222, false}, {"ssh:web/deploy:login", "db1.db.example", 22, false}, {"ssh:web/root:login", "web-1.example.com", 22, false},
	} {
		if got := d.Reaches(scopes.MustParseSet(c.scope), stricturl.Host{Name: c.host, Port: c.port}); got != c.want {
			t.Errorf("%s at %s:%d: %v", c.scope, c.host, c.port, got)
		}
	}
	for host, want := range map[stricturl.Host]string{
		{Name: "web-1.example.com", Port: 22}:   "@cert-authority web-1.example.com " + hostKey + "\nweb-1.example.com " + hostKey + "\n",
		{Name: "web-2.example.com", Port: 2222}: "@cert-authority [web-2.example.com]:2222 " + hostKey + "\n[web-2.example.com]:2222 " + hostKey + "\n",
		{Name: "mail.example.com", Port: 22}:    "", {Name: "db1.db.example", Port: 22}: "db1.db.example " + hostKey + "\n",
	} {
		if lines, known := d.KnownHosts(host); !known || string(lines) != want {
			t.Errorf("%s: %q", host, lines)
		}
	}
	for _, host := range []stricturl.Host{{Name: "web-1.example.com", Port: 2222}, {Name: "a.b.db.example", Port: 22}, {Name: "db.example", Port: 22}} {
		if _, known := d.KnownHosts(host); known {
			t.Errorf("%s is known", host)
		}
	}
}

// TestHostsThatAreNone: an invalid host name or host key is a problem of the configuration.
func TestHostsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, g := range []ssh.Group{
		{Hosts: []string{"web"}}, {Hosts: []string{"192.0.2.7"}}, {Hosts: []string{"*.example.com"}}, {Hosts: []string{"web-1.example.com:0"}}, {HostKeys: []string{"ssh-ed25519 x"}},
		{HostKeys: []string{`command="x" ` + hostKey}}, {HostKeys: []string{hostKey + "\n" + hostKey}}, {HostKeys: []string{"@revoked " + hostKey}},
	} {
		g.Logins = []string{"deploy"}
		_, err := ssh.New(ssh.Config{Name: "ssh", Now: time.Now, Logger: slog.New(slog.DiscardHandler), Options: ssh.Options{Groups: map[string]ssh.Group{"web": g}, KRL: ssh.KRLOptions{Refresh: "60s"}}})
		if err == nil || !strings.Contains(err.Error(), "groups, web: host") {
			t.Errorf("%+v: %v", g, err)
		}
	}
	_, err := ssh.New(ssh.Config{Name: "ssh", Now: time.Now, Logger: slog.New(slog.DiscardHandler), Options: ssh.Options{Groups: map[string]ssh.Group{"*.db.example": {Logins: []string{"dba"}, Hosts: []string{"db1.db.example"}}}, KRL: ssh.KRLOptions{Refresh: "60s"}}})
	if err == nil || !strings.Contains(err.Error(), "leave out hosts") {
		t.Error(err)
	}
}
