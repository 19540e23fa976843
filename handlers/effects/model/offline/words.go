package offline

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The words that say something about a row.
var (
	priorityWords = regexp.MustCompile(`(?i)[,;]?\s*(?:(?:and|with|of|at|has|having|make it|it is|a)\s+)*\b(?:(high|medium|normal|low|top|urgent)(?:est)?[- ]priority|priority\s*(?:of|is|to|:|=)?\s*(high|medium|normal|low|urgent))\b`)
	dueWords      = regexp.MustCompile(`(?i)[,;]?\s*(?:(?:and|that is|which is|it is)\s+)*\b(?:due(?:\s+date)?(?:\s+(?:on|by|to|is|for|at))?|by|until|on|for)\s+` + dayWord)
	bareDay       = regexp.MustCompile(`(?i)[,;]?\s+(today|tomorrow)\s*$`)
	anyDay        = regexp.MustCompile(`(?i)\b` + dayWord)
	statusWords   = regexp.MustCompile(`(?i)\b(to[- ]?do|open|pending|unfinished|in[- _]progress|started|done|completed?|finished)\b`)
	assignWords   = regexp.MustCompile(`(?i)[,;]?\s*(?:and\s+)?\bassign(?:ed)?(?:\s+it)?\s+to\s+([^,;.]+)`)
	describeWords = regexp.MustCompile(`(?is)[,;]?\s*(?:and\s+|with\s+)*(?:the\s+)?\bdescription\s*(?:is|of|:)?\s+(.+)$`)
	projectID     = regexp.MustCompile(`(?i)[,;]?\s*\b(?:in|for|to|of|on)\s+(?:the\s+)?project\s+(?:with\s+(?:the\s+)?id\s+)?([A-Za-z0-9_-]*\d[A-Za-z0-9_-]*)`)
	quoted        = regexp.MustCompile(`"([^"]+)"|“([^”]+)”|'([^']+)'(?:\W|$)`)
	rowID         = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	polite        = regexp.MustCompile(`(?i)^(?:(?:hi|hey|hello|ok|okay|please|now|then|and|also|can you|could you|would you|will you|i want to|i want you to|i need to|i'd like to|i would like to|let's|let us)[,!.]?\s+)+`)
)

const dayWord = `(today|tonight|tomorrow|the day after tomorrow|yesterday|next week|in \d+ (?:days?|weeks?)|(?:next |this |coming )?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)|\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2})?)`

// take finds the words, takes them out of the text, and answers the first group that matched.
func take(text *string, words *regexp.Regexp) string {
	at := words.FindStringSubmatchIndex(*text)
	if at == nil {
		return ""
	}
	found := ""
	for g := 2; g+1 < len(at); g += 2 {
		if at[g] >= 0 {
			found = (*text)[at[g]:at[g+1]]
			break
		}
	}
	*text = strings.TrimSpace((*text)[:at[0]] + " " + (*text)[at[1]:])
	return found
}

func quote(text string) string {
	m := quoted.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[3]
}

func priority(word string) string {
	switch strings.ToLower(word) {
	case "high", "top", "urgent":
		return "high"
	case "low":
		return "low"
	case "medium", "normal":
		return "medium"
	}
	return ""
}

func status(word string) string {
	switch w := strings.ToLower(word); {
	case w == "":
		return ""
	case strings.HasPrefix(w, "in") || w == "started":
		return "in_progress"
	case strings.HasPrefix(w, "to"), w == "open", w == "pending", w == "unfinished":
		return "todo"
	}
	return "done"
}

// day makes a date of the words for one: "tomorrow", "next monday", "in 3 days", or the date itself.
func day(words string, today time.Time) string {
	word := strings.ToLower(strings.TrimSpace(words))
	after := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	switch word {
	case "":
		return ""
	case "today", "tonight":
		return after(0)
	case "tomorrow":
		return after(1)
	case "the day after tomorrow":
		return after(2)
	case "yesterday":
		return after(-1)
	case "next week":
		return after(7)
	}
	if rest, ok := strings.CutPrefix(word, "in "); ok {
		number, unit, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n > 3650 {
			return ""
		}
		if strings.HasPrefix(unit, "week") {
			n *= 7
		}
		return after(n)
	}
	for _, prefix := range []string{"next ", "this ", "coming "} {
		word = strings.TrimPrefix(word, prefix)
	}
	for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
		if word == strings.ToLower(weekday.String()) {
			days := (int(weekday) - int(today.Weekday()) + 7) % 7
			if days == 0 {
				days = 7
			}
			return after(days)
		}
	}
	return strings.Replace(words, " ", "T", 1)
}

// trim takes away what is left around a name when other words were taken out.
func trim(text string) string {
	text = strings.TrimSpace(text)
	for {
		before := text
		text = strings.Trim(text, " \t\n,;:.!?\"“”'")
		for _, word := range []string{" and", " with", " which", " that is", " please"} {
			text = strings.TrimSuffix(text, word)
		}
		for _, word := range []string{"and ", "the ", "a ", "an ", "my ", "called ", "named ", "titled "} {
			if rest, ok := cutFold(text, word); ok {
				text = rest
			}
		}
		if text == before {
			return text
		}
	}
}

func cutFold(text, prefix string) (string, bool) {
	if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		return text[len(prefix):], true
	}
	return text, false
}
