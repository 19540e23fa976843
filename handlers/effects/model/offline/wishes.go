package offline

import (
	"regexp"
	"strings"
)

var (
	commentOn = regexp.MustCompile(`(?is)^(?:add|write|make|create|post)?\s*(?:a\s+)?comments?\s*(.*?)\s*(?:on|to|for)\s+(?:the\s+)?(?:task\s+)?(.+)$`)
	andOrList = regexp.MustCompile(`\s*(?:,\s*and\s+|,|;|\s+and\s+)\s*`)
	toMark    = regexp.MustCompile(`(?i)^\s*(?:to|:|called|named|titled)\s+`)
)

// creating reads "create a task called Buy milk, high priority, due tomorrow" and its like.
func (s *scene) creating(w wish, text string) wish {
	w.verb = "create"
	if w.entity == "" {
		w.entity = s.focusOr("task")
	}
	if strings.HasPrefix(strings.ToLower(text), "note") || strings.HasPrefix(strings.ToLower(text), "jot down") {
		w.entity = "note"
	}
	if strings.HasPrefix(strings.ToLower(text), "remind me") {
		w.entity = "task"
	}
	switch w.entity {
	case "comment":
		return s.commenting(w, text)
	case "note":
		return noting(w, text)
	}
	name := quote(text)
	w.about = take(&text, describeWords)
	w.priority = priority(take(&text, priorityWords))
	if w.entity == "checkpoint" {
		w.due = day(takeDay(&text), s.today)
	} else {
		w.due = day(take(&text, dueWords), s.today)
		if w.due == "" {
			w.due = day(take(&text, bareDay), s.today)
		}
	}
	if people := take(&text, assignWords); people != "" {
		w.people = andOrList.Split(trim(people), -1)
	}
	if name != "" {
		w.names = []string{name}
		return w
	}
	rest := createWords.ReplaceAllString(text, "")
	many := plural.MatchString(beforeEntity(rest))
	if at := entityWords.FindStringIndex(rest); at != nil && len(strings.Fields(rest[:at[0]])) <= 4 {
		rest = rest[at[1]:]
	}
	rest = toMark.ReplaceAllString(" "+strings.TrimSpace(rest), "")
	if many {
		for _, one := range andOrList.Split(trim(rest), -1) {
			if one = upper(trim(one)); one != "" {
				w.names = append(w.names, one)
			}
		}
		return w
	}
	if one := upper(trim(rest)); one != "" {
		w.names = []string{one}
	}
	return w
}

// beforeEntity is the text up to the first entity word and that word.
func beforeEntity(text string) string {
	if at := entityWords.FindStringIndex(text); at != nil {
		return text[:at[1]]
	}
	return ""
}

func takeDay(text *string) string {
	if d := take(text, dueWords); d != "" {
		return d
	}
	return take(text, anyDay)
}

func upper(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func (s *scene) commenting(w wish, text string) wish {
	if m := contentMark.FindStringSubmatch(text); m != nil {
		w.target, w.text = afterAny(m[1], " on ", " to ", " for "), strings.TrimSpace(m[2])
		if w.target == "" {
			w.target = afterAny(" "+m[1], "comment on ", "comment ")
		}
	} else if q := quote(text); q != "" {
		w.text = q
		w.target = afterAny(unquoted(text), " on ", " to ", " for ")
	} else if m := commentOn.FindStringSubmatch(text); m != nil {
		w.text, w.target = trim(m[1]), nameOf(m[2])
	}
	if w.id != "" && strings.Contains(w.target, w.id) {
		w.target = ""
	}
	w.text = strings.Trim(w.text, `"“”`)
	return w
}

func noting(w wish, text string) wish {
	head, content := text, ""
	if m := contentMark.FindStringSubmatch(text); m != nil {
		head, content = m[1], strings.TrimSpace(m[2])
	}
	name := quote(head)
	if name == "" {
		name = createWords.ReplaceAllString(head, "")
		if at := entityWords.FindStringIndex(name); at != nil && len(strings.Fields(name[:at[0]])) <= 3 {
			name = name[at[1]:]
		}
		name = toMark.ReplaceAllString(" "+strings.TrimSpace(name), "")
		name = upper(trim(strings.TrimPrefix(trim(name), "about ")))
	}
	if name == "" { // "note down: …": its first words are its title
		words := strings.Fields(content)
		name = upper(trim(strings.Join(words[:min(6, len(words))], " ")))
	}
	if content == "" {
		content = name
	}
	if name != "" {
		w.names = []string{name}
	}
	w.text = content
	return w
}

// targeting reads "delete the task Buy milk".
func (s *scene) targeting(w wish, verb, text string, words *regexp.Regexp) wish {
	w.verb = verb
	if w.entity == "" {
		w.entity = s.focusOr("task")
	}
	if q := quote(text); q != "" {
		w.target = q
		return w
	}
	text = words.ReplaceAllString(text, "")
	if w.entity == "comment" {
		if i := indexAny(text, " on ", " from ", " of "); i >= 0 {
			w.text, w.target = nameOf(text[:i]), nameOf(text[i+1+strings.Index(text[i+1:], " "):])
			return w
		}
	}
	if at := entityWords.FindStringIndex(text); at != nil {
		if after := nameOf(text[at[1]:]); after != "" {
			text = after
		} else {
			text = text[:at[0]]
		}
	}
	w.target = trim(text)
	if w.id != "" && strings.Contains(w.target, w.id) {
		w.target = ""
	}
	return w
}

func (s *scene) completing(w wish, text string) wish {
	lower := strings.ToLower(text)
	state := "done"
	for _, end := range []string{" as done", " done", " as completed", " as complete", " completed", " as finished", " off"} {
		if i := strings.LastIndex(lower, end); i > 0 {
			text = text[:i]
			break
		}
	}
	for _, end := range []string{" as in progress", " in progress"} {
		if i := strings.LastIndex(lower, end); i > 0 {
			text, state = text[:i], "in_progress"
		}
	}
	w = s.targeting(w, "update", text, doneWords)
	w.entity, w.status = "task", state
	return w
}

// changing reads "rename task A to B", "set the priority of A to high", "move A to friday", "archive project A".
func (s *scene) changing(w wish, text string) wish {
	lower := strings.ToLower(text)
	verb := strings.Fields(lower)[0]
	if w.entity == "" {
		w.entity = s.focusOr("task")
	}
	w.verb = "update"
	switch verb {
	case "archive", "unarchive":
		w = s.targeting(w, "update", text, changeWords)
		w.entity, w.status = "project", map[string]string{"archive": "archived", "unarchive": "active"}[verb]
		return w
	case "approve":
		w = s.targeting(w, "update", text, changeWords)
		w.status = "approved"
		return w
	case "reopen":
		w = s.targeting(w, "update", text, changeWords)
		w.status = "todo"
		return w
	}
	if m := contentMark.FindStringSubmatch(text); m != nil && w.entity == "note" {
		w = s.targeting(w, "update", strings.TrimSuffix(trim(m[1]), " to"), changeWords)
		w.text = strings.TrimSpace(m[2])
		return w
	}
	w.priority = priority(take(&text, priorityWords))
	head, value := text, ""
	if m := renameWords.FindStringSubmatch(text); m != nil {
		head, value = m[1], trim(m[2])
	}
	switch {
	case verb == "rename" || strings.Contains(lower, "title") || strings.Contains(lower, "name of"):
		w.names = []string{value}
	case strings.Contains(lower, "priority"):
		if p := priority(value); p != "" {
			w.priority = p
		}
	case anyDay.MatchString(value):
		w.due = day(anyDay.FindString(value), s.today)
	case strings.Contains(lower, "status") || status(value) != "" && statusWords.FindString(value) == value:
		w.status = status(value)
	case verb == "assign":
		w.people = andOrList.Split(value, -1)
	}
	head = propertyOf.ReplaceAllString(head, "")
	return s.targeting(w, "update", head, changeWords)
}

// propertyOf is "the priority of", which stands between the verb and the row.
var propertyOf = regexp.MustCompile(`(?i)\b(?:the\s+)?(?:priority|due date|deadline|date|status|title|name)\s+(?:of|for)\s+|\s*(?:'s|’s)\s+(?:priority|due date|deadline|date|status|title|name)\b|\s+(?:priority|due date|deadline|status)\s*$`)
