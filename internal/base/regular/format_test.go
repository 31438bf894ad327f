package regular

import "testing"

func TestForeignFormat(t *testing.T) {
	for _, test := range []struct{ path, head, want string }{
		{"plan", `<?xml version="1.0"?><jmeterTestPlan version="1.2">`, "a JMeter test plan"},
		{"a.ts", "// load\nimport http from 'k6/http';", "a k6 script"},
		{"x", "\n<!DOCTYPE html><title>", "a web page"},
		{"README", "Results of May", "a text about results"},
		{"a/.DS_Store", "\x00\x00\x00\x01Bud1", "a hidden file"},
		{"x.json", `{"RunType":"HTTP"}`, ""},
		{"access.log", `1.1.1.1 - - [`, ""},
	} {
		if got, _ := ForeignFormat(test.path, []byte(test.head)); got != test.want {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}
