package policy_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ebb-broker/ebb/scopes/policy"
)

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	body := func(when string) string {
		return "\n@id(\"p\")\npermit (principal, action, resource) when { " + when + " };"
	}
	head := func(h string) string { return "\n@id(\"p\")\npermit (" + h + ");" }
	const all = `permit (principal, action, resource);`
	for _, tc := range []struct{ text, want string }{
		// the schema
		{body(`context.nope == 1`), "t.cedar:3:53: attribute `nope` in context not found"},
		{body(`principal.nope == "x"`), "t.cedar:3:55: attribute `nope`"},
		{body(`resource.nope == "x"`), "t.cedar:3:54: attribute `nope`"},
		{body(`context.task.nope == "x"`), "t.cedar:3:58: attribute `nope`"},
		{body(`context.record.nope == 1`), "t.cedar:3:60: attribute `nope`"},
		{body(`context has wildcrad`), "`has wildcrad`"},
		{body(`context["a."] == 1`), "t.cedar:2:1: attribute `a.`"},
		{body(`context["."] == 1`), "t.cedar:2:1: attribute `.`"},
		{body(`context.tool == 1`), "t.cedar:2:1: "},
		{body(`context.ttl == "1"`), "t.cedar:2:1: "},
		{body(`context.task.getTag("env") == "prod"`), "unable to guarantee safety of access to tag"},
		{body(`context.tool`), "expected Bool"},
		{body(`resource in User::"x"`), "unrecognized entity type `User`"},
		{body(`resource in Resource::"a:x"`), "unrecognized entity type `Resource`"},
		{head(`principal in User::"x", action, resource`), "unrecognized entity type `User`"},
		{head(`principal == Ebb::Resource::"a:x", action, resource`), "unable to find an applicable action"},
		{head(`principal, action == Action::"read", resource`), "unrecognized action"},
		{head(`principal, action, resource in Ebb::Attestor::"x"`), "unable to find an applicable action"},
		{body(`ip("bogus").isLoopback()`), "failed to parse as IP address"},
		// the names of the grammar
		{head(`principal, action, resource == Ebb::Resource::"a:x/*"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a:**"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a:"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a:x/"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a:x/../y"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"a:x:read"`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Resource::"A:x"`), "not a concrete provider:path"},
		{body(`resource in [Ebb::Resource::"a:x", Ebb::Resource::"a:*"]`), "not a concrete provider:path"},
		{body(`[Ebb::Resource::"a:*"].contains(resource)`), "not a concrete provider:path"},
		{head(`principal, action, resource in Ebb::Provider::"a:x"`), "no scope can have this provider"},
		{head(`principal, action, resource in Ebb::Provider::"*"`), "no scope can have this provider"},
		{head(`principal, action == Ebb::Action::"*", resource`), "leave `action` open"},
		{head(`principal, action in [Ebb::Action::"read", Ebb::Action::"READ"], resource`), "no scope can have this action"},
		{body(`action == Ebb::Action::""`), "no scope can have this action"},
		{head(`principal == Ebb::Sandbox::"", action, resource`), "the id is empty"},
		// annotations
		{all, "@id is missing"},
		{`@id permit (principal, action, resource);`, "@id("},
		{`@id("") ` + all, "@id("},
		{`@id("a b") ` + all, "@id("},
		{`@id("-a") ` + all, "@id("},
		{`@id("` + strings.Repeat("a", 65) + `") ` + all, "@id("},
		{`@id("p") @name("x") ` + all, `@name("x"): is unknown`},
		{`@id("p") @Ask("x") ` + all, `@Ask("x"): is unknown`},
		{`@id("p") @quorum("2") ` + all, "@quorum without @ask"},
		{`@id("p") @ask("a") @quorum("0") ` + all, `@quorum("0")`},
		{`@id("p") @ask("a") @quorum("-1") ` + all, `@quorum("-1")`},
		{`@id("p") @ask("a") @quorum("02") ` + all, `@quorum("02")`},
		{`@id("p") @ask("a") @quorum("101") ` + all, `@quorum("101")`},
		{`@id("p") @ask("a") @quorum("two") ` + all, `@quorum("two")`},
		{`@id("p") @ask("") ` + all, `@ask("")`},
		{`@id("p") @ask("a,,b") ` + all, `@ask("a,,b")`},
		{`@id("p") @ask("a,a") ` + all, `@ask("a,a")`},
		{`@id("p") @ask("a\u{202e}b") ` + all, `@ask(`},
		{`@id("p") @max_ttl("10") ` + all, `@max_ttl("10")`},
		{`@id("p") @max_ttl("0s") ` + all, `@max_ttl("0s")`},
		{`@id("p") @max_ttl("-1m") ` + all, `@max_ttl("-1m")`},
		{`@id("p") @max_ttl("1500ms") ` + all, `@max_ttl("1500ms")`},
		{`@id("p") @deliver("token") ` + all, `@deliver("token")`},
		{`@id("p") @why("") ` + all, `@why("")`},
		{`@id("p") @why("a\nb") ` + all, `@why(`},
		{`@id("p") @ask("a") forbid (principal, action, resource);`, `@ask("a"): is for a permit`},
		{`@id("p") @max_ttl("1m") forbid (principal, action, resource);`, `@max_ttl("1m"): is for a permit`},
		{`@id("p") @deliver("egress") forbid (principal, action, resource);`, `@deliver("egress"): is for a permit`},
		{`@id("p") ` + all + "\n" + `@id("p") ` + all, `t.cedar:2: @id("p") is already used at t.cedar:1`},
		// the file
		{"\n\npermit (principal, action", "t.cedar:3:26: syntax error: the policy ends where `,` is missing"},
		{"\n@id(\"p\") permit (principal == ?principal, action, resource);", "t.cedar:2:32: "},
		{`@id("p") @id("q") ` + all, "t.cedar:1:13: "},
		{"// nothing\n", "no policy in any file"},
		{"", "no policy in any file"},
		{"\n" + strings.Repeat("(", 65), "t.cedar:2: brackets nested"},
		{"// \xff", "not UTF-8"},
		{strings.Repeat(" ", 256<<10) + all, "larger than"},
	} {
		set, err := policy.Load(map[string][]byte{"t.cedar": []byte(tc.text)})
		var le *policy.LoadError
		if set != nil || !errors.As(err, &le) || len(le.Problems) == 0 {
			t.Errorf("%.200q loaded: %v", tc.text, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.200q:\n got %v\nwant %s", tc.text, err, tc.want)
		}
		if seen := map[string]bool{}; true {
			for _, p := range le.Problems {
				if seen[p.String()] {
					t.Errorf("%.200q says twice: %s", tc.text, p)
				}
				seen[p.String()] = true
			}
		}
	}
}

func TestLoadReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := policy.Load(map[string][]byte{
		"b.cedar": []byte("@id(\"x\") permit (principal, action, resource) when { context.nope == 1 };\n\n@id(\"y\") @deliver(\"mail\") @max_ttl(\"x\")\npermit (principal, action, resource in Ebb::Resource::\"a:*\");"),
		"a.cedar": []byte("permit (principal, action, resource"),
		"c.cedar": []byte(`@id("x") forbid (principal, action, resource);`),
	})
	if err == nil {
		t.Fatal("loaded")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"policy: not loaded", "a.cedar:1:36: ", "b.cedar:1:62: attribute `nope`", "b.cedar:3:10: @deliver", "b.cedar:3:27: @max_ttl", "b.cedar:4:40: Ebb::Resource", `c.cedar:1: @id("x") is already used at b.cedar:1`}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("line %d: %q, want %q", i, lines[i], w)
		}
	}
}

// Each typo is found at its own line and column with the word that is meant, also behind another typo.
func TestLoadFindsTypos(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"@id(\"x\")\npermit (principal, action == Ebb::Action::\"wrte\",\n  resource in Ebb::Provder::\"orders\")\nwhen { context.revocabilty == \"instant\" };": {
			`t.cedar:2:30: Ebb::Action::"wrte": not one of the usual actions; did you mean "write"?`,
			"t.cedar:3:15: unrecognized entity type `Ebb::Provder`; did you mean Ebb::Provider?",
			"t.cedar:4:16: attribute `revocabilty` in context not found; did you mean revocability?",
		},
		"permitt (principal, action, resource);\n@id(\"b\") permit (principal, action, resource) when { context.tol == \"; ) // \" };\n@id(\"c\") permit (principal, acton, resource);": {
			"t.cedar:1:1: syntax error: found `permitt` where `permit` or `forbid` is expected; did you mean permit?",
			"t.cedar:2:62: attribute `tol` in context not found; did you mean tool?",
			"t.cedar:3:29: syntax error: found `acton` where `action` is expected; did you mean action?",
		},
		"// context.nme\n@id(\"x\") permit (principal, action, resource) when { principal.hasTag(\"nme\") && context.task.nme == \"é\" };": {
			"t.cedar:2:94: attribute `nme` on entity type `Ebb::Task` not found; did you mean name?",
		},
		"@id(\"x\") permit (principal, action, resource in Provider::\"orders\");": {
			"t.cedar:1:49: unrecognized entity type `Provider`; did you mean Ebb::Provider?",
		},
		"@id(\"x\") permit (principal, action, resource) when { (context.tool == \"é\" };": {
			"t.cedar:1:75: syntax error: found `}` where `)` is expected",
		},
		"@id(\"x\") permit (principal, action, resource) when { true } }": {
			"t.cedar:1:61: syntax error: found `}` where `;` is expected",
		},
	} {
		_, err := policy.Load(map[string][]byte{"t.cedar": []byte(text)})
		if err == nil {
			t.Errorf("%s: loaded", text)
			continue
		}
		if got := strings.Split(err.Error(), "\n")[1:]; !slices.Equal(got, want) {
			t.Errorf("%s\n got %s\nwant %s", text, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

// An action that looks like a typo is a note: each provider has actions of its own.
func TestNotes(t *testing.T) {
	t.Parallel()
	set, err := policy.Load(map[string][]byte{"t.cedar": []byte("@id(\"x\") permit (principal, action in [Ebb::Action::\"set\", Ebb::Action::\"reed\", Ebb::Action::\"push\"], resource);")})
	if err != nil {
		t.Fatal(err)
	}
	notes := set.Notes()
	if len(notes) != 1 || notes[0].String() != `t.cedar:1:60: Ebb::Action::"reed": not one of the usual actions; did you mean "read"?` {
		t.Errorf("got %v", notes)
	}
}

// A missing directory is not a directory without policies.
func TestLoadMissingDirectory(t *testing.T) {
	t.Parallel()
	if _, err := policy.LoadDir(os.DirFS(t.TempDir() + "/none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestLoadAccepts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`@id("p") permit (principal, action == Ebb::Action::"repo.push_force-2", resource);`,
		`@id("p") @ask("Domain Admins, team:ops/eu") @quorum("2") @max_ttl("1h30m") @deliver("egress") @why("Weil es schön ist.") permit (principal, action, resource);`,
		"@id(\"p\") // ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((\npermit (principal, action, resource) when { context.tool != \"((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((\\\"\" };",
	} {
		if set, err := policy.Load(map[string][]byte{"t.cedar": []byte(text)}); err != nil || set.Len() != 1 {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLoadDir(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, dir := range map[string]fstest.MapFS{
		"empty":       {},
		"other files": {"README.md": file("x"), "a.test.yaml": file("[]"), "sub/a.cedar": file(`@id("p") permit (principal, action, resource);`)},
		"no policy":   {"a.cedar": file("// later")},
	} {
		if set, err := policy.LoadDir(dir); err == nil || set != nil {
			t.Errorf("%s: loaded", name)
		}
	}
	set, err := policy.LoadDir(fstest.MapFS{
		"b.cedar": file(`@id("b") permit (principal, action, resource);`),
		"a.cedar": file(`@id("a") forbid (principal, action, resource);`),
		"a.yaml":  file(`nonsense`),
	})
	if err != nil || set.Len() != 2 {
		t.Errorf("%v", err)
	}
	if _, err := policy.LoadDir(os.DirFS("/nonexistent/policies")); err == nil {
		t.Error("a missing directory loads")
	}
	if _, err := policy.LoadDir(fstest.MapFS{"a.cedar": {Mode: os.ModeDir}}); err == nil {
		t.Error("a directory named a.cedar loads")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	const a, b = `@id("a") permit (principal, action, resource);`, `@id("b") forbid (principal, action, resource) when { context.ttl > 1 };`
	version := func(files map[string]string) string {
		raw := map[string][]byte{}
		for name, text := range files {
			raw[name] = []byte(text)
		}
		set, err := policy.Load(raw)
		if err != nil {
			t.Fatal(err)
		}
		return set.Version()
	}
	base := version(map[string]string{"x.cedar": a + b})
	if len(base) != 64 {
		t.Errorf("version %q", base)
	}
	for name, files := range map[string]map[string]string{
		"order":    {"x.cedar": b + a},
		"files":    {"x.cedar": b, "y.cedar": a},
		"comments": {"x.cedar": "// c\n" + a + "\n\n" + strings.ReplaceAll(b, " ", "\n  ")},
	} {
		if got := version(files); got != base {
			t.Errorf("%s change the version", name)
		}
	}
	for name, text := range map[string]string{
		"an id":         strings.Replace(a, `"a"`, `"c"`, 1) + b,
		"a condition":   a + strings.Replace(b, "> 1", "> 2", 1),
		"an effect":     strings.Replace(a, "permit", "forbid", 1) + b,
		"an annotation": `@why("x")` + a + b,
		"a policy":      a,
	} {
		if got := version(map[string]string{"x.cedar": text}); got == base {
			t.Errorf("%s does not change the version", name)
		}
	}
}

func TestSchemaIsPrinted(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"entity Sandbox", "entity Resource", "wildcard: Bool", "taint: Set<String>"} {
		if !strings.Contains(policy.Schema(), word) {
			t.Errorf("the schema does not name %s", word)
		}
	}
	if !strings.Contains(policy.StarterSource(), "starter-read") {
		t.Error("the starter has no text")
	}
}
