package secret

import "testing"

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
