package regular

import "testing"

func TestForeignFormat(t *testing.T) {
	for _, test := range []struct{ path, head, want string }{
		{"a.json", `{"info":{"_postman_id":"1","name":"x","schema":"https://schema.getpostman.com/json/collection/v2.1.0/collection.json"}}`, "a Postman collection"},
		{"a.json", "\ufeff{ \"openapi\": \"3.1.0\"}", "an OpenAPI description"},
		{"plan", `<?xml version="1.0"?><jmeterTestPlan version="1.2">`, "a JMeter test plan"},
		{"a.ts", "// load\nimport http from 'k6/http';", "a k6 script"},
		{"requests", "curl -X POST http://a/", "a curl command"},
		{"x", "\n<!DOCTYPE html><title>", "a web page"},
		{"README", "Results of May", "a text about results"},
		{"a/.DS_Store", "\x00\x00\x00\x01Bud1", "a hidden file"},
		{"x.json", `{"RunType":"HTTP"}`, ""},
		{"access.log", `1.1.1.1 - - [`, ""},
		{"x", `10.0.0.1 - frank [10/Oct/2026:13:55:36 +0200] "GET /a?b=1 HTTP/1.1" 200 23`, "an access log"},
	} {
		if got, _ := ForeignFormat(test.path, []byte(test.head)); got != test.want {
			t.Errorf("%s: %q, want %q", test.path, got, test.want)
		}
	}
}
