package tpm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// factory makes swtpms whose EKs are certified by one CA, below a root.
type factory struct {
	dir          string
	swtpm, setup string
}

func newFactory(t *testing.T) *factory {
	t.Helper()
	f := &factory{swtpm: counterpart.Program(t, "swtpm"), setup: counterpart.Program(t, "swtpm_setup")}
	// A unix socket's path is short.
	dir, err := os.MkdirTemp("", "ebb-tpm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary folder
	f.dir = dir
	localca := counterpart.Program(t, "swtpm_localca")
	f.write(t, "localca.conf", "statedir = "+dir+"\nsigningkey = "+dir+"/signkey.pem\nissuercert = "+f.issuer()+"\ncertserial = "+dir+"/certserial\n")
	f.write(t, "localca.options", "--platform-manufacturer Ebb --platform-version 1.0 --platform-model Test\n")
	f.write(t, "setup.conf", "create_certs_tool="+localca+"\ncreate_certs_tool_config="+dir+"/localca.conf\ncreate_certs_tool_options="+dir+"/localca.options\nactive_pcr_banks=sha256\n")
	return f
}

func (f *factory) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *factory) issuer() string { return filepath.Join(f.dir, "issuercert.pem") }

func (f *factory) root() string { return filepath.Join(f.dir, "swtpm-localca-rootca-cert.pem") }

// device is one swtpm with its state.
type device struct {
	transport.TPM
	factory *factory
	state   string
	cmd     *exec.Cmd
}

// manufacture makes a TPM with an RSA-2048 and a P-384 EK, and starts it.
func (f *factory) manufacture(t *testing.T, name string) *device {
	t.Helper()
	d := &device{factory: f, state: filepath.Join(f.dir, name)}
	if err := os.Mkdir(d.state, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(f.setup, "--tpm2", "--tpmstate", d.state, "--config", filepath.Join(f.dir, "setup.conf"),
		"--create-ek-cert", "--create-platform-cert", "--ecc", "--overwrite", "--lock-nvram").CombinedOutput()
	if err != nil {
		t.Fatalf("swtpm_setup: %v\n%s", err, out)
	}
	t.Cleanup(d.off)
	d.on(t)
	return d
}

func (d *device) on(t *testing.T) {
	t.Helper()
	sock := filepath.Join(d.state, "s")
	os.Remove(sock) //nolint:errcheck // of the last start, if any
	d.cmd = exec.Command(d.factory.swtpm, "socket", "--tpm2", "--tpmstate", "dir="+d.state, "--server", "type=unixio,path="+sock,
		"--ctrl", "type=unixio,path="+sock+".ctrl", "--flags", "not-need-init,startup-clear")
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if d.TPM, err = linuxudstpm.Open(sock); err == nil {
			if _, err = (tpm2.ReadClock{}).Execute(d); err == nil {
				return
			}
		}
	}
	t.Fatalf("swtpm does not answer: %v", err)
}

func (d *device) off() {
	if d.cmd != nil {
		d.cmd.Process.Kill() //nolint:errcheck // it may have ended
		d.cmd.Wait()         //nolint:errcheck // it was killed
		d.cmd = nil
	}
}

// ekAt is where an EK and its certificate are (TCG EK Credential Profile, 2.2).
type ekAt struct {
	handle, nv tpm2.TPMHandle
	auth       tpm2.Session
}

// rsaEKAt needs the policy of the template; that of P-384 takes the empty password.
func rsaEKAt() ekAt {
	return ekAt{0x81010001, 0x01C00002, tpm2.Policy(tpm2.TPMAlgSHA256, 16, func(t transport.TPM, s tpm2.TPMISHPolicy, nonce tpm2.TPM2BNonce) error {
		_, err := tpm2.PolicySecret{AuthHandle: tpm2.TPMRHEndorsement, NonceTPM: nonce, PolicySession: s}.Execute(t)
		return err
	})}
}

func eccEKAt() ekAt { return ekAt{0x81010016, 0x01C00016, tpm2.PasswordAuth(nil)} }

// certificate reads the NV index of an EK certificate.
func (d *device) certificate(t *testing.T, index tpm2.TPMHandle) []byte {
	t.Helper()
	pub := must(tpm2.NVReadPublic{NVIndex: index}.Execute(d))
	nv := tpm2.NamedHandle{Handle: index, Name: pub.NVName}
	size := must(pub.NVPublic.Contents()).DataSize
	var out []byte
	for len(out) < int(size) {
		n := min(1024, size-uint16(len(out)))
		rsp := must(tpm2.NVRead{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}, NVIndex: nv, Size: n, Offset: uint16(len(out))}.Execute(d))
		out = append(out, rsp.Data.Buffer...)
	}
	return out
}

// sandbox is what runs beside a TPM and walks both steps.
type sandbox struct {
	d      *device
	at     ekAt
	ek, ak tpm2.NamedHandle
	doc    map[string]any
}

func (d *device) sandbox(t *testing.T, at ekAt, hierarchy tpm2.TPMHandle, template tpm2.TPMTPublic) *sandbox {
	t.Helper()
	ek := must(tpm2.ReadPublic{ObjectHandle: at.handle}.Execute(d))
	ak := must(tpm2.CreatePrimary{PrimaryHandle: tpm2.AuthHandle{Handle: hierarchy, Auth: tpm2.PasswordAuth(nil)}, InPublic: tpm2.New2B(template)}.Execute(d))
	t.Cleanup(func() { tpm2.FlushContext{FlushHandle: ak.ObjectHandle}.Execute(d) }) //nolint:errcheck // it may be gone
	issuer := certificates(t, d.factory.issuer())
	return &sandbox{d: d, at: at, ek: tpm2.NamedHandle{Handle: at.handle, Name: ek.Name}, ak: tpm2.NamedHandle{Handle: ak.ObjectHandle, Name: ak.Name},
		doc: map[string]any{"ek_cert": append([]string{text64(d.certificate(t, at.nv))}, issuer...),
			"ek_public": text64(ek.OutPublic.Bytes()), "ak_public": text64(ak.OutPublic.Bytes())}}
}

// activate asks the TPM for the secret of a challenge.
func (s *sandbox) activate(t *testing.T, c attest.Challenge) ([]byte, error) {
	t.Helper()
	blob, secret := parseCredential(t, c)
	rsp, err := tpm2.ActivateCredential{
		ActivateHandle: tpm2.AuthHandle{Handle: s.ak.Handle, Name: s.ak.Name, Auth: tpm2.PasswordAuth(nil)},
		KeyHandle:      tpm2.AuthHandle{Handle: s.ek.Handle, Name: s.ek.Name, Auth: s.at.auth},
		CredentialBlob: *must(tpm2.Unmarshal[tpm2.TPM2BIDObject](blob)), Secret: *must(tpm2.Unmarshal[tpm2.TPM2BEncryptedSecret](secret)),
	}.Execute(s.d)
	if err != nil {
		return nil, err
	}
	return rsp.CertInfo.Buffer, nil
}

// answer quotes PCRs of a bank over the nonce.
func (s *sandbox) answer(nonce string, secret []byte, bank tpm2.TPMAlgID, indexes ...uint) []byte {
	extra := sha256.Sum256([]byte(nonce))
	selection := tpm2.TPMLPCRSelection{PCRSelections: []tpm2.TPMSPCRSelection{{Hash: bank, PCRSelect: tpm2.PCClientCompatible.PCRs(indexes...)}}}
	q := must(tpm2.Quote{SignHandle: tpm2.AuthHandle{Handle: s.ak.Handle, Name: s.ak.Name, Auth: tpm2.PasswordAuth(nil)},
		QualifyingData: tpm2.TPM2BData{Buffer: extra[:]}, PCRSelect: selection}.Execute(s.d))
	values := map[string]string{}
	for i, v := range must(tpm2.PCRRead{PCRSelectionIn: selection}.Execute(s.d)).PCRValues.Digests {
		values[strconv.Itoa(int(indexes[i]))] = hex.EncodeToString(v.Buffer)
	}
	doc := map[string]any{"nonce": nonce, "secret": text64(secret), "quote": text64(q.Quoted.Bytes()), "signature": text64(tpm2.Marshal(q.Signature)), "pcrs": values}
	for k, v := range s.doc {
		doc[k] = v
	}
	return must(json.Marshal(doc))
}

// request is the document of a challenge.
func (s *sandbox) request() []byte { return must(json.Marshal(s.doc)) }

// extend extends a PCR of the SHA-256 bank.
func (d *device) extend(index tpm2.TPMHandle, digest []byte) {
	must(tpm2.PCRExtend{PCRHandle: tpm2.AuthHandle{Handle: index, Auth: tpm2.PasswordAuth(nil)},
		Digests: tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: digest}}}}.Execute(d))
}
