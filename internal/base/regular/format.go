package regular

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
)

// format is recognized by its beginning or by the file's name.
type format struct {
	name string // with its article
	tip  string
	head *regexp.Regexp // nil: only the extensions count
	ext  []string
}

// formats are the ones that tare does not read. The first match counts.
var formats = []format{
	{"a Postman collection", "write its requests as lines of method and URL", regexp.MustCompile(`"schema"\s*:\s*"https?://schema\.(?:get)?postman\.com|"_postman_id"`), nil},
	{"an Insomnia export", "write its requests as lines of method and URL", regexp.MustCompile(`"__export_format"|^type: collection\.insomnia`), nil},
	{"an OpenAPI description", "write its requests as lines of method and URL", regexp.MustCompile(`^(?:openapi|swagger):|^\{\s*"(?:openapi|swagger)"\s*:`), nil},
	{"a JMeter test plan", "write its requests as lines of method and URL", regexp.MustCompile(`<jmeterTestPlan`), []string{".jmx"}},
	{"an access log", "write its requests as lines of method and URL", regexp.MustCompile(`^\S+ \S+ \S+ \[[^\]]+\] "[A-Z]+ `), nil},
	{"a k6 script", "run it in k6 with --out json=FILE, and import that file", regexp.MustCompile(`(?m)^import .* from ['"]k6`), nil},
	{"a Locust script", "write its requests as lines of method and URL", regexp.MustCompile(`(?m)^(?:from locust import|import locust)`), nil},
	{"a packet capture", "write its requests as lines of method and URL", regexp.MustCompile(`^(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\n\r\r\n)`), []string{".pcap", ".pcapng"}},
	{"a curl command", "write lines of method and URL, or run it as tare load with the same flags", regexp.MustCompile(`^curl\s`), nil},
	{"a web page", "", regexp.MustCompile(`(?i)^(?:<!doctype html|<html)`), []string{".html", ".htm", ".css", ".js"}},
	{"a zip archive", "unpack it", regexp.MustCompile(`^PK\x03\x04`), []string{".zip", ".saz", ".jar"}},
	{"a tar archive", "unpack it", nil, []string{".tar", ".tgz"}},
	{"a picture", "", regexp.MustCompile(`^(?:\x89PNG|\xff\xd8\xff|GIF8|%PDF)`), []string{".png", ".svg", ".jpg", ".jpeg", ".gif", ".pdf"}},
	{"a text about results", "", nil, []string{".md", ".rst", ".adoc"}},
	{"a script", "", regexp.MustCompile(`^#!`), []string{".sh", ".py", ".lua", ".go", ".ipynb", ".pyc"}},
	{"a configuration file", "", nil, []string{".yaml", ".yml", ".toml", ".ini", ".env"}},
}

// names are files that other programs leave in a directory.
var names = []string{"readme", "license", "makefile", "dockerfile", "thumbs.db", "desktop.ini"}

// ForeignFormat returns the format of a file that tare does not read, with a hint, both empty for others. head is
// the beginning of its content. Without a path only the content counts.
func ForeignFormat(path string, head []byte) (name, tip string) {
	head = bytes.TrimLeft(head, " \t\r\n\ufeff")
	base := strings.ToLower(filepath.Base(path))
	ext := filepath.Ext(base)
	for _, f := range formats {
		if f.head != nil && f.head.Match(head) {
			return f.name, f.tip
		}
	}
	for _, f := range formats {
		for _, e := range f.ext {
			if e == ext {
				return f.name, f.tip
			}
		}
	}
	for _, n := range names {
		if base == n || strings.HasPrefix(base, n+".") {
			return "a text about results", ""
		}
	}
	if strings.HasPrefix(base, ".") && base != "." {
		return "a hidden file", ""
	}
	return "", ""
}
