package policyset

import (
	"fmt"
	"strings"
)

// Patch returns the changes between two sets of files as a unified diff for `git apply` and `patch
// -p1`. The diff replaces each changed file as a whole.
func Patch(from, to []File) string {
	was, is := byName(from), byName(to)
	var b strings.Builder
	for _, f := range sorted(from) {
		if _, kept := is[f.Name]; !kept {
			fmt.Fprintf(&b, "--- a/%s\n+++ /dev/null\n", f.Name)
			hunk(&b, f.Text, "")
		}
	}
	for _, f := range sorted(to) {
		old, known := was[f.Name]
		switch {
		case !known:
			fmt.Fprintf(&b, "--- /dev/null\n+++ b/%s\n", f.Name)
		case old == f.Text:
			continue
		default:
			fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", f.Name, f.Name)
		}
		hunk(&b, old, f.Text)
	}
	return b.String()
}

func byName(files []File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		out[f.Name] = f.Text
	}
	return out
}

func hunk(b *strings.Builder, from, to string) {
	removed, added := linesOf(from), linesOf(to)
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(len(removed)), span(len(added)))
	for _, side := range []struct {
		sign  string
		lines []string
		text  string
	}{{"-", removed, from}, {"+", added, to}} {
		for _, l := range side.lines {
			b.WriteString(side.sign + l + "\n")
		}
		if len(side.lines) > 0 && !strings.HasSuffix(side.text, "\n") {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
}

func span(n int) string {
	if n == 0 {
		return "0,0"
	}
	return fmt.Sprintf("1,%d", n)
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
