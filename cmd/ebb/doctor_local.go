package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// certWarning is the remaining lifetime below which a certificate causes a
// warning.
const certWarning = 21 * 24 * time.Hour

func (d *doctor) dataDir() {
	info, err := os.Stat(d.cfg.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("data directory", d.cfg.DataDir+" does not exist yet", "`ebb serve` creates it")
		return
	case err != nil:
		d.fail("data directory", err.Error(), "check its owner and mode")
		return
	case info.Mode().Perm()&0o077 != 0:
		d.fail("data directory", fmt.Sprintf("other users can enter %s (mode %04o)", d.cfg.DataDir, info.Mode().Perm()), "chmod 700 "+d.cfg.DataDir)
		return
	}
	if err := wholeData(d.cfg); d.cfg.Database == "" && err != nil {
		d.failed("data directory", err, "")
		return
	}
	d.ok("data directory", "%s, mode 0700", d.cfg.DataDir)
	for _, name := range []string{operatorKey, approverKey} {
		if _, err := keyfile.Read((keyCommands{d.c}).keyPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.fail("local key "+name, err.Error(), "chmod 600, or remove the file so that `ebb serve` creates a new one")
		}
	}
}

func (d *doctor) signingKeys() {
	if _, err := os.Stat(d.cfg.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		d.warn("signing keys", "there are none yet", "`ebb serve` creates them")
		return
	}
	dir, err := keys.Open(keysConfig(d.cfg))
	if err != nil {
		d.failed("signing keys", err, "restore the directory from the backup")
		return
	}
	now := time.Now()
	for _, k := range keyLines(dir.Ring(), now) {
		if k.State != "signs" {
			continue
		}
		age := now.Sub(k.ActiveFrom).Round(time.Hour)
		if !k.RetireAt.IsZero() && now.After(k.RetireAt.Add(24*time.Hour)) {
			d.warn("signing keys", fmt.Sprintf("%s has signed for %s and should have been replaced", k.KID, age), "check that an ebb is running, which rotates keys by itself, or run `ebb keys rotate`")
			return
		}
		d.ok("signing keys", "%s (%s) has signed for %s", k.KID, k.Alg, age)
	}
}

func (d *doctor) certificate() {
	if d.cfg.TLS.Cert == "" {
		if d.cfg.Loopback() {
			d.ok("certificate", "none, and none is needed on loopback")
		}
		return
	}
	pair, err := tls.LoadX509KeyPair(d.cfg.TLS.Cert, d.cfg.TLS.Key)
	if err != nil {
		d.fail("certificate", err.Error(), "check tls.cert and tls.key")
		return
	}
	if info, err := os.Stat(d.cfg.TLS.Key); err == nil && info.Mode().Perm()&0o077 != 0 {
		d.warn("certificate", fmt.Sprintf("other users can read %s (mode %04o)", d.cfg.TLS.Key, info.Mode().Perm()), "chmod 600 "+d.cfg.TLS.Key)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		d.fail("certificate", err.Error(), "check tls.cert")
		return
	}
	if u, err := url.Parse(d.cfg.PublicURL); err == nil && u.Hostname() != "" {
		if err := cert.VerifyHostname(u.Hostname()); err != nil {
			d.fail("certificate", "the certificate is not valid for "+u.Hostname(), "get a certificate for the host of public_url")
			return
		}
	}
	left := time.Until(cert.NotAfter).Round(time.Hour)
	switch {
	case left <= 0:
		d.fail("certificate", "it expired at "+cert.NotAfter.UTC().Format(time.RFC3339), "renew it")
	case left < certWarning:
		d.warn("certificate", fmt.Sprintf("it expires in %s", left), "renew it and restart ebb")
	default:
		d.ok("certificate", "valid for %s", left)
	}
}

func (d *doctor) policy() {
	set, err := loadPolicies(d.cfg.PolicyDir)
	if err != nil {
		d.failed("policy", err, "`ebb policy check`")
		return
	}
	if d.cfg.PolicyDir == "" {
		d.ok("policy", "the built-in starter policy")
		return
	}
	files, err := policy.TestFiles(os.DirFS(d.cfg.PolicyDir))
	if err != nil {
		d.failed("policy", err, "check policy_dir")
		return
	}
	report := policy.RunTests(set, files)
	switch {
	case report.Failed > 0:
		d.warn("policy", fmt.Sprintf("%d of %d golden tests fail", report.Failed, report.Failed+report.Passed), "`ebb policy test` lists them")
	case report.Passed == 0:
		d.warn("policy", fmt.Sprintf("%d policies load, and none of them is tested", set.Len()), "add *.test.yaml files to policy_dir")
	default:
		d.ok("policy", "%d policies load, %d tests pass", set.Len(), report.Passed)
	}
}
