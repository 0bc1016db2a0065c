package oidc

import (
	"regexp"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// preset is the pinned configuration for one platform that issues tokens to its
// workloads. Presets are data, in one file for each sort of platform. The page
// docs/attestors/oidc.md explains the choices.
type preset struct {
	name string
	// params are the parameters of the texts below. {name} in a text stands for the
	// value, {/name} for a slash and the value, or for nothing when the value is empty.
	params []param
	// issuer is the iss of tokens, keys the jwks_uri of the discovery document.
	issuer, keys string
	algs         []jose.Alg
	// audience is set for a platform whose tokens always have this audience. Otherwise
	// the operator chooses one, but none of refused and no URL below one of them.
	audience string
	refused  []string
	// maxLifetime is the longest lifetime of the platform's tokens.
	maxLifetime time.Duration
	// bearer is true when a workload sends the same token to every service. The
	// configuration must then have accept_bearer.
	bearer bool
	// shape is the pattern of the subject, see type shape.
	shape string
	// owners are claims whose accepted values the configuration must list.
	owners []owner
	// required maps claims to their accepted values. present are claims that every
	// token of the platform has, with any value.
	required map[string][]string
	present  []string
	// selectors maps selector names to claim paths. Each set in unique identifies one
	// sandbox, as precisely as the platform's tokens can.
	selectors map[string]string
	unique    [][]string
	// shared maps selectors in unique to a pattern of values that many sandboxes have.
	shared map[string]*regexp.Regexp
	// allow maps the names of exceptions, which weaken the preset, to their effect.
	allow map[string]allowance
}

// param is a parameter of a preset, whose value the operator supplies.
type param struct {
	name     string
	pattern  *regexp.Regexp
	fallback string
	optional bool
	// host is true when the parameter chooses the key server. The server is then the
	// operator's own and may have a private address.
	host bool
}

// owner is a claim that identifies the owner of a workload. Its pattern accepts ids and
// refuses names, because a platform can later assign a released name to another owner.
type owner struct {
	path    string
	pattern *regexp.Regexp
	what    string
}

// allowance widens the requirement of one claim by more values. Without values it
// removes the requirement.
type allowance struct {
	path   string
	values []string
}

var (
	slugText   = regexp.MustCompile(`\A[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?\z`)
	idText     = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)
	digitsText = regexp.MustCompile(`\A[1-9][0-9]{0,20}\z`)
	uuidText   = regexp.MustCompile(`\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z`)
	hostText   = regexp.MustCompile(`\A[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?\z`)
	originText = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9.:/_-]{0,250}\z`)
	pathText   = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._-]{1,100}){0,4}\z`)
	urlText    = regexp.MustCompile(`\Ahttps://[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?(?:/[A-Za-z0-9_-]{1,100}){0,4}\z`)
)

// Patterns of ids that are specific to one platform.
var (
	modalWorkspace = regexp.MustCompile(`\Aac-[A-Za-z0-9]{1,64}\z`)
	vercelOwner    = regexp.MustCompile(`\A(?:team_)?[A-Za-z0-9]{8,64}\z`)
	azureShared    = regexp.MustCompile(`(?i)/providers/microsoft\.managedidentity/`)
	googleProject  = regexp.MustCompile(`\A[a-z0-9](?:[a-z0-9.:-]{0,98}[a-z0-9])?\z`)
)

func presets() []preset { return slices.Concat(ciPresets(), sandboxPresets(), cloudPresets()) }

// Presets returns the names of the presets, sorted.
func Presets() []string {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}
