package client

import (
	"errors"
	"fmt"

	"github.com/ebb-broker/ebb/attest/jose"
)

// OperatorConfig identifies the principal. All members without a documented
// default are required.
type OperatorConfig struct {
	Config
	ClientID string      // id of the principal
	Key      jose.Signer // its registered key, also for DPoP proofs
	KID      string      // kid under which it is registered; needed only when the principal has several keys
}

// Operator calls ebb as a principal: an operator, runner, approver, auditor or
// resource server. Each field has the methods of one area of the API. The roles
// of the principal determine which methods it may call.
type Operator struct {
	Tasks       *TasksService       // tasks and enrolment tickets
	Endpoints   *EndpointsService   // egress endpoints of sandboxes
	Requests    *RequestsService    // approval requests
	BreakGlass  *BreakGlassService  // break-glass periods
	Credentials *CredentialsService // issued credentials, their use and their revocation
	Transcripts *TranscriptsService // recorded requests
	Audit       *AuditService       // audit log
	Policy      *PolicyService      // policy set in force
	Providers   *ProvidersService   // providers and their self-tests
	Attestors   *AttestorsService   // attestors and how they evaluate evidence
	Secrets     *SecretsService     // stored secrets of the operator

	session *session
}

// NewOperator returns an Operator. It does not call ebb.
func NewOperator(c OperatorConfig) (*Operator, error) {
	p, err := newPeer(c.Config)
	if err != nil {
		return nil, err
	}
	if c.ClientID == "" || c.Key == nil {
		return nil, errors.New("client: ClientID and Key are required")
	}
	if _, err := jose.AlgOf(c.Key.Public()); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	s := &session{peer: p, id: c.ClientID, key: c.Key, kid: c.KID, gate: make(chan access, 1)}
	s.gate <- access{}
	return &Operator{
		Tasks: &TasksService{s}, Endpoints: &EndpointsService{s},
		Requests: &RequestsService{s}, BreakGlass: &BreakGlassService{s},
		Credentials: &CredentialsService{s}, Transcripts: &TranscriptsService{s}, Audit: &AuditService{s},
		Policy: &PolicyService{s}, Providers: &ProvidersService{s}, Attestors: &AttestorsService{s}, Secrets: &SecretsService{s},
		session: s,
	}, nil
}
