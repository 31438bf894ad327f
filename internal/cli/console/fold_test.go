package console

import "testing"

func TestFold(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"short line\n", "short line\n"},
		{"  a hint: one two three four\n", "  a hint: one two\n      three four\n"},
		{"µµµµ µµµµ µµµµ µµµµ µ\n", "µµµµ µµµµ µµµµ µµµµ\n    µ\n"},
		{"aWordThatIsWiderThanTheLine yes\n", "aWordThatIsWiderThanTheLine yes\n"},
	} {
		if got := Fold(c.line, 20); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}
