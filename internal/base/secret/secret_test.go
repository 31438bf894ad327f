package secret

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	Add(`pass"word 77`)
	Add("123456")
	Add("true") // too short to be removed: it is in ordinary text
	for text, want := range map[string]string{
		`log: pass"word 77 true 1234567`: `log: (secret) true (secret)7`,
		"GET /?t=pass%22word+77":         "GET /?t=(secret)",
		"GET /pass%22word%2077":          "GET /(secret)",
		"nothing of it":                  "nothing of it",
	} {
		if got := string(Redact([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"cpu": 1234567, "type": "text/pass\"word 77", "at": "2026-03-01T12:00:00.123456Z", "ok": true}`: `{"cpu": 1234567, "type": "text/(secret)", "at": "2026-03-01T12:00:00.123456Z", "ok": true}`,
		`{"a 123456 b": 1}`: `{"a (secret) b": 1}`,
	} {
		if got := string(RedactJSON([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A stream is redacted as its whole text is, wherever its pieces end.
func TestCopy(t *testing.T) {
	Add("s3cret-value")
	Add("value-of-another")
	for _, before := range []int{0, piece - 20, piece - 12, piece - 11, piece - 1, piece, 2*piece - 6} {
		for _, part := range []string{"s3cret-value", "s3cret-values3cret-value", "s3cret-value-of-another", strings.Repeat("value-of-another ", piece/8)} {
			text := strings.Repeat("x", before) + part + strings.Repeat("y", piece)
			var out strings.Builder
			if found, err := Copy(&out, strings.NewReader(text)); err != nil || !found {
				t.Fatal(found, err)
			}
			if got, want := out.String(), string(Redact([]byte(text))); got != want {
				t.Errorf("%.30s after %d bytes: %d bytes, want %d", part, before, len(got), len(want))
			}
		}
	}
}
