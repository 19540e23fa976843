package rest

import (
	"regexp"
	"strings"
)

// markdown is what is removed from a text for a notification, in this order.
func markdown() []struct {
	find *regexp.Regexp
	put  string
} {
	rule := func(find, put string) struct {
		find *regexp.Regexp
		put  string
	} {
		return struct {
			find *regexp.Regexp
			put  string
		}{regexp.MustCompile(find), put}
	}
	return []struct {
		find *regexp.Regexp
		put  string
	}{
		rule("(?m)^[ \t]*(```|~~~).*$\n?", ""),                        // fences, not what is between them
		rule(`(?m)^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`, "$1"), // headings
		rule(`(?m)^[ \t]*([-*_][ \t]*){3,}$\n?`, ""),                  // rules
		rule(`(?m)^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(\|[ \t:-]*)*$\n?`, ""),
		rule(`(?m)^([ \t]*>)+[ \t]?`, ""),                        // quotations
		rule(`(?m)^([ \t]*)[-*+][ \t]+(\[[ xX]\][ \t]+)?`, "$1"), // lists
		rule(`!?\[([^\]\n]*)\]\([^)\n]*\)`, "$1"),                // links and images
		rule(`!?\[([^\]\n]+)\]\[[^\]\n]*\]`, "$1"),
		rule(`<((?:https?|mailto):[^>\s]+)>`, "$1"),
		rule(`</?[a-zA-Z][^>\n]*>`, ""),
		rule("`+([^`\n]+)`+", "$1"),
		rule(`\*\*\*(\S(?:.*?\S)?)\*\*\*`, "$1"),
		rule(`\*\*(\S(?:.*?\S)?)\*\*`, "$1"),
		rule(`__(\S(?:.*?\S)?)__`, "$1"),
		rule(`~~(\S(?:.*?\S)?)~~`, "$1"),
		rule(`\*(\S(?:[^*\n]*?\S)?)\*`, "$1"),
		rule(`(^|[^\pL\pN_])_(\S(?:[^_\n]*?\S)?)_([^\pL\pN_]|$)`, "$1$2$3"),
		rule(`(?m)^[ \t]*\|[ \t]*(.*?)[ \t]*\|[ \t]*$`, "$1"), // table rows
		rule(`[ \t]+\|[ \t]+`, ", "),
		rule("\\\\([\\\\`*_{}\\[\\]()#+.!|>~-])", "$1"),
		rule(`\n{3,}`, "\n\n"),
	}
}

// plain is a Markdown text without its marks.
func plain(text string) string {
	for _, rule := range markdown() {
		text = rule.find.ReplaceAllString(text, rule.put)
	}
	return strings.TrimSpace(text)
}
