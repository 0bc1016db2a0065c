package core

import (
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/liveness"
	"github.com/ebb-broker/ebb/broker/policyadmin"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/revocation"
)

// allocate makes the areas without connecting them, because they refer to each other.
func allocate(c Config, s *shared) *Broker {
	return &Broker{
		cfg:           c,
		shared:        s,
		Kernel:        kernel.New(),
		Identity:      identity.New(),
		Issuance:      issuance.New(),
		Approval:      approval.New(),
		Revocation:    revocation.New(),
		Durability:    durability.New(),
		Liveness:      liveness.New(),
		Report:        report.New(),
		PolicyAdmin:   policyadmin.New(),
		ProviderAdmin: provideradmin.New(),
	}
}

// connect gives each area its dependencies: stores, limits, shared state, and the parts of
// other areas that it calls. An area can reach nothing else.
func (b *Broker) connect() {
	b.connectKernel()
	b.shared.began = b.Now()
	b.connectIdentity()
	b.connectIssuance()
	b.connectApproval()
	b.connectRevocation()
	b.connectDurability()
	b.connectLiveness()
	b.connectReport()
	b.connectPolicyAdmin()
	b.connectProviderAdmin()
}

func (b *Broker) connectKernel() {
	c, s := &b.cfg, b.shared
	b.Kernel.Connect(kernel.Config{
		Now:       c.Now,
		Steady:    c.Steady,
		Store:     c.Store,
		LiveStore: c.LiveStore,
		Limits:    c.Limits,
		Logger:    c.Logger,
		Nonces:    c.Nonces,

		Budgets: s.budgets,
		Live:    s.live,
		M:       s.m,
		Noted:   s.noted,
		Revoked: s.revoked,

		Tasks: b.TaskOpener,
	})
}

func (b *Broker) connectIdentity() {
	c, s := &b.cfg, b.shared
	b.Identity.Connect(identity.Config{
		AcrValues:       c.ACRValues,
		Attestors:       c.Attestors,
		Configured:      c.Principals,
		EvidenceHeaders: c.EvidenceHeaders,
		IssuerURL:       c.Issuer,
		Store:           c.Store,
		Keys:            c.Keys,
		LiveStore:       c.LiveStore,
		Limits:          c.Limits,
		Liveness:        c.Liveness,
		Logger:          c.Logger,

		Decoys:     s.decoys,
		Judged:     s.judged,
		Live:       s.live,
		M:          s.m,
		People:     s.people,
		Principals: s.principals,
		Revoked:    s.revoked,
		Silent:     s.silent,

		Admission:   b.Admitter,
		Clock:       b.Timekeeper,
		Emergencies: b.Emergencies,
		Log:         b.Recorder,
		Sandboxes:   b.SandboxWatch,
		Tasks:       b.TaskOpener,
	})
}

func (b *Broker) connectIssuance() {
	c, s := &b.cfg, b.shared
	b.Issuance.Connect(issuance.Config{
		Attestors:     c.Attestors,
		ApprovalStore: c.ApprovalStore,
		Egress:        c.Egress,
		IssuerURL:     c.Issuer,
		Store:         c.Store,
		LiveStore:     c.LiveStore,
		Limits:        c.Limits,
		Logger:        c.Logger,
		Policy:        c.Policy,
		Providers:     c.Providers,
		Sealer:        c.Sealer,
		Transcripts:   c.Transcripts,

		Crowd:     s.crowd,
		Instance:  s.instance,
		Kept:      s.kept,
		Live:      s.live,
		M:         s.m,
		Noted:     s.noted,
		People:    s.people,
		Rang:      s.rang,
		Revoked:   s.revoked,
		Roots:     s.roots,
		Upstreams: s.upstreams,
		Used:      s.used,

		Admission: b.Admitter,
		Approvals: b.Approvals,
		Callers:   b.Authenticator,
		Clock:     b.Timekeeper,
		Control:   b.TaskControl,
		Evidence:  b.Evidence,
		Fatigue:   b.FatigueGuard,
		Feed:      b.Feeds,
		Log:       b.Recorder,
		Pending:   b.PendingEnds,
		Queue:     b.Queue,
		Revoker:   b.Revocations,
		Tickets:   b.Enroller,
	})
}

func (b *Broker) connectApproval() {
	c, s := &b.cfg, b.shared
	b.Approval.Connect(approval.Config{
		Attestors:       c.Attestors,
		BreakGlassRules: c.BreakGlass,
		Configured:      c.Principals,
		ApprovalStore:   c.ApprovalStore,
		Store:           c.Store,
		LiveStore:       c.LiveStore,
		Limits:          c.Limits,
		Logger:          c.Logger,
		PresenceFrom:    c.PresenceFrom,
		Providers:       c.Providers,

		CodeKey:    s.codeKey,
		Live:       s.live,
		M:          s.m,
		Background: s.background,
		Silent:     s.silent,

		Accounts:  b.Accounts,
		Admission: b.Admitter,
		Callers:   b.Authenticator,
		Clock:     b.Timekeeper,
		Control:   b.TaskControl,
		Issuer:    b.TokenIssuer,
		Listings:  b.Listings,
		Log:       b.Recorder,
		Revoker:   b.Revocations,
		Tasks:     b.TaskOpener,
	})
}

func (b *Broker) connectRevocation() {
	c, s := &b.cfg, b.shared
	b.Revocation.Connect(revocation.Config{
		ApprovalStore: c.ApprovalStore,
		EndsPath:      c.PendingEnds,
		IssuerURL:     c.Issuer,
		Store:         c.Store,
		Keys:          c.Keys,
		LiveStore:     c.LiveStore,
		Limits:        c.Limits,
		Logger:        c.Logger,
		Providers:     c.Providers,
		Secrets:       c.Secrets,
		Sealer:        c.Sealer,

		Began:     s.began,
		Budgets:   s.budgets,
		Crowd:     s.crowd,
		Cuts:      s.cuts,
		Instance:  s.instance,
		Kept:      s.kept,
		Live:      s.live,
		M:         s.m,
		Rang:      s.rang,
		Revoked:   s.revoked,
		Upstreams: s.upstreams,

		Approvals: b.Approvals,
		Callers:   b.Authenticator,
		Clock:     b.Timekeeper,
		Evidence:  b.Evidence,
		Fatigue:   b.FatigueGuard,
		Listings:  b.Listings,
		Log:       b.Recorder,
		Tasks:     b.TaskOpener,
		Upstream:  b.ThirdParties,
	})
}

func (b *Broker) connectDurability() {
	c, s := &b.cfg, b.shared
	b.Durability.Connect(durability.Config{
		ApprovalStore: c.ApprovalStore,
		Store:         c.Store,
		KeyDirectory:  c.KeyDirectory,
		Keys:          c.Keys,
		KnownKeys:     c.KnownKeys,
		LiveStore:     c.LiveStore,
		Limits:        c.Limits,
		Logger:        c.Logger,
		Marks:         c.Marks,

		Cuts:    s.cuts,
		Live:    s.live,
		M:       s.m,
		Revoked: s.revoked,

		Clock:   b.Timekeeper,
		Log:     b.Recorder,
		Pending: b.PendingEnds,
		Tasks:   b.TaskOpener,
		Tickets: b.Enroller,
	})
}

func (b *Broker) connectLiveness() {
	c, s := &b.cfg, b.shared
	b.Liveness.Connect(liveness.Config{
		Attestors: c.Attestors,
		Store:     c.Store,
		LiveStore: c.LiveStore,
		Liveness:  c.Liveness,
		Logger:    c.Logger,

		Cuts:       s.cuts,
		M:          s.m,
		Revoked:    s.revoked,
		Background: s.background,

		Callers: b.Authenticator,
		Clock:   b.Timekeeper,
		Fatigue: b.FatigueGuard,
		Log:     b.Recorder,
		Revoker: b.Revocations,
		Tasks:   b.TaskOpener,
	})
}

func (b *Broker) connectReport() {
	c := &b.cfg
	b.Report.Connect(report.Config{
		ApprovalStore: c.ApprovalStore,
		Store:         c.Store,
		Keys:          c.Keys,
		KnownKeys:     c.KnownKeys,
		Logger:        c.Logger,
		Policy:        c.Policy,

		Callers:     b.Authenticator,
		Clock:       b.Timekeeper,
		Emergencies: b.Emergencies,
		Fatigue:     b.FatigueGuard,
		Guard:       b.AuditGuard,
		Log:         b.Recorder,
		Policies:    b.Drafts,
		Tasks:       b.TaskOpener,
	})
}

func (b *Broker) connectPolicyAdmin() {
	c := &b.cfg
	b.PolicyAdmin.Connect(policyadmin.Config{
		Attestors:    c.Attestors,
		Store:        c.Store,
		Limits:       c.Limits,
		Policies:     c.Policies,
		Policy:       c.Policy,
		PolicySource: c.PolicySource,
		Providers:    c.Providers,

		Clock:  b.Timekeeper,
		Issuer: b.TokenIssuer,
		Log:    b.Recorder,
	})
}

func (b *Broker) connectProviderAdmin() {
	c, s := &b.cfg, b.shared
	b.ProviderAdmin.Connect(provideradmin.Config{
		Store:     c.Store,
		LiveStore: c.LiveStore,
		Limits:    c.Limits,
		Logger:    c.Logger,
		Providers: c.Providers,
		Secrets:   c.Secrets,
		Sealer:    c.Sealer,

		Upstreams: s.upstreams,

		Clock:    b.Timekeeper,
		Issuer:   b.TokenIssuer,
		Log:      b.Recorder,
		Revoker:  b.Revocations,
		Tasks:    b.TaskOpener,
		Upstream: b.ThirdParties,
	})
}
