package calls

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// The names of fields in JSON access logs, of objects in objects with a dot. The first that a line
// has counts. Istio and Envoy: start_time, method, path. nginx: what a log_format names, here as in
// its own variables. Traefik: StartUTC, RequestMethod, RequestPath. Caddy: ts and request.
var (
	timeFields    = []string{"start_time", "StartUTC", "ts", "time_iso8601", "msec", "time_local", "@timestamp", "timestamp", "time"}
	methodFields  = []string{"method", "request_method", "RequestMethod", "request.method"}
	pathFields    = []string{"path", "request_uri", "RequestPath", "request.uri", "uri"}
	queryFields   = []string{"args", "query_string", "query"} // if the path has none
	requestFields = []string{"request"}                       // "GET /path HTTP/1.1", before all others
	hostFields    = []string{"authority", ":authority", "http_host", "RequestHost", "request.host", "vhost", "host"}
)

// escapedByte is nginx's notation of a byte, which is invalid in JSON.
var escapedByte = regexp.MustCompile(`\\x([0-9A-Fa-f]{2})`)

// parseJSONLine reads a JSON object of an access log. Of Docker's json-file driver it returns the
// line within, otherwise the line itself, or nothing if it is an object of something else.
func parseJSONLine(text string) (line string, l logged, ok bool) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil &&
		json.Unmarshal([]byte(escapedByte.ReplaceAllString(text, "%$1")), &object) != nil {
		return "", l, false
	}
	if within, is := object["log"].(string); is {
		if within = strings.TrimSpace(within); strings.HasPrefix(within, "{") {
			if strings.Contains(within, `"log"`) { // one level is enough
				return "", l, false
			}
			return parseJSONLine(within)
		}
		return within, l, false
	}
	timed := slices.ContainsFunc(timeFields, func(name string) bool { return object[name] != nil })
	if _, url := object["url"]; url || !timed { // a line of requests
		return "", l, false
	}
	l.method, l.uri, l.host = field(object, methodFields), field(object, pathFields), field(object, hostFields)
	if request := accessLogs[0].request.FindStringSubmatch(field(object, requestFields)); request != nil {
		l.method, l.uri = request[1], request[2] // nginx's $uri is decoded, rewritten and without arguments
	}
	if l.method == "" && l.uri == "" && object["response_code"] == nil && object["status"] == nil {
		return "", l, false
	}
	if query := field(object, queryFields); query != "" && query != "-" && l.uri != "" && !strings.Contains(l.uri, "?") {
		l.uri += "?" + strings.TrimPrefix(query, "?")
	}
	if strings.Trim(l.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || l.uri == "" {
		l.method = "" // "-" of a request that was not valid
	}
	return text, l, true
}

// field is the first of the fields that is a text.
func field(object map[string]any, names []string) string {
	for _, name := range names {
		if text, ok := lookup(object, name).(string); ok && text != "" {
			return text
		}
	}
	return ""
}

func lookup(object map[string]any, name string) any {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return object[name]
	}
	within, _ := object[outer].(map[string]any)
	return within[inner]
}
