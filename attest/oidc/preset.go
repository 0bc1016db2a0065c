package oidc

import (
	"regexp"
	"slices"
	"time"

	"ebb/attest/jose"
)

// preset is what ebb pins about a platform that gives its workloads tokens. It is
// data, a file for each sort of platform; the page docs/attestors/oidc.md has the
// reasons in words.
type preset struct {
	name string
	// params fill in {name}, and {/name} with a slash before it or nothing, in the
	// texts below.
	params []param
	// issuer is the iss, keys the jwks_uri of its discovery document.
	issuer, keys string
	algs         []jose.Alg
	// audience is the only one that the platform can make; "": the operator's
	// choice, but none of refused or below it.
	audience string
	refused  []string
	// maxLifetime is the longest that the platform makes.
	maxLifetime time.Duration
	// bearer: what the token's holder shows everybody, so that it has to be asked
	// for by name (accept_bearer).
	bearer bool
	// shape of the subject, see the type.
	shape string
	// owners are claims whose values the configuration must name.
	owners []owner
	// required are claims and their accepted values, present those that a token of
	// this platform has whatever their values.
	required map[string][]string
	present  []string
	// selectors are names and claim paths. unique are those that together name one
	// sandbox, as far as the platform's tokens can.
	selectors map[string]string
	unique    [][]string
	// shared are values of such selectors, by name, that many sandboxes have.
	shared map[string]*regexp.Regexp
	// allow are the dangers that can be allowed by name.
	allow map[string]allowance
}

// param is a part of a preset that the operator knows.
type param struct {
	name     string
	pattern  *regexp.Regexp
	fallback string
	optional bool
	// host: the key server is the operator's own and may have a private address.
	host bool
}

// owner is a claim that says whose workload it is. Its pattern refuses names
// where an id belongs: names are given to somebody else some day.
type owner struct {
	path    string
	pattern *regexp.Regexp
	what    string
}

// allowance widens one requirement: more values, or with none, no requirement.
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

// Ids that say by their looks what they are.
var (
	modalWorkspace = regexp.MustCompile(`\Aac-[A-Za-z0-9]{1,64}\z`)
	vercelOwner    = regexp.MustCompile(`\A(?:team_)?[A-Za-z0-9]{8,64}\z`)
	azureShared    = regexp.MustCompile(`(?i)/providers/microsoft\.managedidentity/`)
	googleProject  = regexp.MustCompile(`\A[a-z0-9](?:[a-z0-9.:-]{0,98}[a-z0-9])?\z`)
)

func presets() []preset { return slices.Concat(ciPresets(), sandboxPresets(), cloudPresets()) }

// Presets lists the names of the presets, sorted.
func Presets() []string {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}
