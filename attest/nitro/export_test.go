package nitro

import (
	"github.com/fxamacker/cbor/v2"
)

// Read reads a document as Attest does, and says what it encodes to again.
func Read(text []byte) (again []byte, moduleID string, registers map[uint8]cbor.ByteString, err error) {
	d, err := newDecoder()
	if err != nil {
		return nil, "", nil, err
	}
	e, p, err := d.document(text)
	if err != nil {
		return nil, "", nil, err
	}
	again, err = cbor.Marshal(e)
	if p.PCRs != nil {
		return again, p.ModuleID, p.PCRs, err
	}
	return again, p.ModuleID, p.TPMPCRs, err
}
