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
	{"a JMeter test plan", "", regexp.MustCompile(`<jmeterTestPlan`), []string{".jmx"}},
	{"a k6 script", "run it in k6 with --out json=FILE, and import that file", regexp.MustCompile(`(?m)^import .* from ['"]k6`), nil},
	{"a packet capture", "", regexp.MustCompile(`^(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\n\r\r\n)`), []string{".pcap", ".pcapng"}},
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
