package calls

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// requestsOf lists the requests in their order, each with its body.
func requestsOf(s *Source) []string {
	var all []string
	for _, c := range s.Calls {
		all = append(all, strings.TrimSpace(c.Method+" "+strings.TrimPrefix(c.URL, "http://h")+" "+string(c.Body)))
	}
	return all
}

const dockerLine = `{"log": "[2022-07-20T09:49:56.472Z] \"GET /details/0 HTTP/1.1\" 200 - via_upstream - \"-\" 0 178 2 1 \"-\" \"curl/7.52.1\"\n", "stream": "stdout", "time": "2022-07-20T09:49:56.5Z"}`

var recordedLogs = []struct {
	name, text string
	want       []string
	note       string
}{
	{"the first line has no request", `10.0.0.1 - - [01/Mar/2024:10:00:00 +0000] "-" 408 0 "-" "-"
10.0.0.2 - - [01/Mar/2024:10:00:01 +0000] "GET /a HTTP/1.1" 200 1 "-" "x"
10.0.0.2 - - [01/Mar/2024:10:00:02 +0000] "GET /b HTTP/1.1" 200 1 "-" "x"`, []string{"GET /a", "GET /b"}, "lines without a valid request (1)"},
	{"a program's start", strings.Repeat("/docker-entrypoint.sh: Looking for shell scripts\n", 60) + `10.0.0.2 - - [01/Mar/2024:10:00:01 +0000] "GET /a HTTP/1.1" 200 1 "-" "x"`, []string{"GET /a"}, "lines of something else (60)"},
	{"escaped bytes", `10.0.0.1 - - [01/Mar/2024:10:00:00 +0000] "GET /caf\xC3\xA9?q=\x22a\x22 HTTP/1.1" 200 1 "-" "x"
10.0.0.1 - - [01/Mar/2024:10:00:00 +0000] "GET /path\x5Cx?a=\"b\\ HTTP/1.1" 200 1 "-" "x"`, []string{"GET /caf%C3%A9?q=%22a%22", "GET /path%5Cx?a=%22b%5C"}, ""},
	{"Docker", dockerLine, []string{"GET /details/0"}, ""},
	{"containerd", `2024-03-01T10:00:00.123456789Z stdout F 10.0.0.2 - - [01/Mar/2024:10:00:01 +0000] "GET /a HTTP/1.1" 200 1 "-" "x"`, []string{"GET /a"}, ""},
	{"kubectl logs --prefix", `[pod/web-0/istio-proxy] [2022-07-20T09:49:56.472Z] "GET /a HTTP/1.1" 200 - 0 1`, []string{"GET /a"}, ""},
	{"Istio", `{"authority":"reviews:9080","method":"GET","path":"/reviews/0?x=1","protocol":"HTTP/1.1","response_code":200,"start_time":"2024-03-01T10:00:00.656Z","user_agent":"curl/8"}
{"authority":null,"method":null,"path":null,"response_code":0,"start_time":"2024-03-01T10:00:01Z"}
{"method":"POST","path":"/cart","response_code":200,"start_time":"2024-03-01T10:00:02Z"}`, []string{"GET /reviews/0?x=1"},
		"lines without a valid request (1), requests with methods other than GET, HEAD and OPTIONS, whose bodies a log lacks (1)"},
	{"nginx, JSON", `{"time_iso8601":"2024-03-01T10:00:01+00:00","remote_addr":"1.1.1.1","request":"GET /caf\xC3\xA9 HTTP/1.1","status":"200"}
{"time_local":"01/Mar/2024:10:00:00 +0000","request_method":"HEAD","uri":"/b","args":"x=1","status":200}
{"msec":"1709287202.250","request_method":"GET","request_uri":"/c?y=2","status":200}`, []string{"GET /caf%C3%A9", "HEAD /b?x=1", "GET /c?y=2"}, ""},
	{"Traefik", `{"ClientAddr":"1.1.1.1:1","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/x?a=1","StartLocal":"2024-03-01T11:00:00.5+01:00","StartUTC":"2024-03-01T10:00:00.5Z","level":"info","time":"2024-03-01T10:00:01Z"}`, []string{"GET /x?a=1"}, ""},
	{"Caddy", `{"level":"info","ts":1709287200.125,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"1.1.1.1","proto":"HTTP/2.0","method":"GET","host":"a","uri":"/y?b=2","headers":{}},"duration":0.001,"status":200}`, []string{"GET /y?b=2"}, ""},
}

func TestRecordedLogs(t *testing.T) {
	for _, test := range recordedLogs {
		s := open(t, test.text, "http://h/")
		if got := requestsOf(s); !slices.Equal(got, test.want) || s.Note() != test.note || !s.Log {
			t.Errorf("%s: %q, omitted %s", test.name, got, s.Note())
		}
	}
}

// Each request has the Host of its line, as the server's program got it.
func TestHostsOfLogs(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Envoy, JSON": {`{"start_time":"2024-07-03T09:44:19.301Z","method":"GET","path":"/","authority":"shop.example.com","response_code":200}
{"start_time":"2024-07-03T09:44:19.401Z","method":"GET","path":"/","authority":"api.example.com","response_code":200}
{"start_time":"2024-07-03T09:44:19.501Z","method":"GET","path":"/","authority":"shop.example.com","response_code":200}`,
			"2 shop.example.com GET / http://h/ Host: shop.example.com; 1 api.example.com GET / http://h/ Host: api.example.com"},
		"Envoy, text": {`[2024-07-20T09:49:56.472Z] "GET /details/0 HTTP/1.1" 200 - via_upstream - "-" 0 178 2 1 "-" "curl/7.52.1" "f0a6" "details:9080" "10.0.0.1:9080" inbound|9080|| - - - -`, "1 GET /details/{id} http://h/details/0 Host: details:9080"},
		"Caddy":       {`{"ts":1709287200.125,"request":{"method":"GET","host":"a.example","uri":"/y?b=2"},"status":200}`, "1 GET /y http://h/y?b=2 Host: a.example"},
		"Traefik":     {`{"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/x","RequestHost":"b.example","StartUTC":"2024-03-01T10:00:00.5Z"}`, "1 GET /x http://h/x Host: b.example"},
		"Apache":      {`shop.example.com:443 10.0.0.1 - - [01/Mar/2024:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"`, "1 GET /a http://h/a Host: shop.example.com:443"},
		"an address":  {`10.0.0.1 - - [01/Mar/2024:10:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"`, "1 GET /a http://h/a"},
		"no Host":     {`{"start_time":"2024-07-03T09:44:19.301Z","method":"GET","path":"/","authority":"x y\r\nA: b","response_code":200}`, "1 GET / http://h/"},
		"nginx": {`{"time_iso8601":"2024-05-01T10:00:00+00:00","request_method":"GET","uri":"/index.php","request":"GET /shop?id=1 HTTP/1.1","status":"200"}
{"time_iso8601":"2024-05-01T10:00:01+00:00","request_method":"GET","uri":"/index.php","args":"q=2","status":"200"}`, "1 GET /shop http://h/shop?id=1; 1 GET /index.php http://h/index.php?q=2"},
		"URLs": {"http://h/a\nhttp://h/b?c=d\n", "1  http://h/a; 1  http://h/b?c=d"},
	} {
		var got []string
		for _, c := range open(t, test.text, "http://h/").Calls {
			got = append(got, strings.Join(append([]string{fmt.Sprint(c.Weight), c.Name, c.URL}, c.Headers...), " "))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The note has the Hosts that are sent, and how many lines lack one.
func TestHostNote(t *testing.T) {
	line := func(host string) string {
		return `{"start_time":"2024-07-03T09:44:19.301Z","method":"GET","path":"/","authority":"` + host + `","response_code":200}` + "\n"
	}
	for text, want := range map[string]string{
		line("a.example") + line("b.example") + line("b.example"): "Host of each line: b.example (2), a.example (1)",
		line("a.example") + line(""):                              "Host of each line: a.example (1). 1 without one have that of the URL",
		line(""):                                                  "no line has a Host: requests have that of the URL",
		"GET http://h/a\n":                                        "",
	} {
		if got := open(t, text, "http://h/").HostNote(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
