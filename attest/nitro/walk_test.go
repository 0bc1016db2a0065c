package nitro_test

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/nitro"
	"github.com/ebb-broker/ebb/web/api/walktest"
)

// TestWalk: documents of enclaves are attested by a complete ebb.
func TestWalk(t *testing.T) {
	t.Parallel()
	made := &fixture{clock: attesttest.NewClock()}
	made.clock.Set(time.Now())
	made.pki = newPKI(t, made.clock.Now())
	made.config = nitro.Config{Name: "nitro", Type: nitro.Enclave, PCRs: map[string][]string{"0": {hex.EncodeToString(register("0"))}}, RootSHA256: made.pki.root()}
	started := 0
	walktest.Run(t, walktest.Kind{
		Name: "nitro",
		Open: func(t testing.TB, nonces *attest.Nonces, now func() time.Time) attest.Attestor {
			c := made.config
			c.Nonces, c.Now = nonces, now
			return open(t, c)
		},
		Start: func(testing.TB) walktest.Sandbox {
			started++
			id := fmt.Sprintf("%s-enc%016x", instanceID, started)
			return walktest.Sandbox{Selectors: map[string]string{"module_id": id}, Answer: func(t testing.TB, jkt string, c attest.Challenge) string {
				return string(made.document(t, c.Nonce, attest.Key{JKT: jkt}, set("module_id", id)))
			}}
		},
	})
}
