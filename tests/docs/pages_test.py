"""The pages against the programs: links, manual pages, exit codes, variables, sentences. Usage: pages_test.py BUILD"""

import re
import shutil
import sys
import unittest

sys.dont_write_bytecode = True

import documents  # noqa: E402
import sentences  # noqa: E402
from support import ReaderTest, main  # noqa: E402


def terms(page, title):
    """The terms of one section of a manual page's source."""
    body = page.split(f".SH {title}\n", 1)[1].split("\n.SH ", 1)[0]
    return [term.replace("\\-", "-") for term in re.findall(r"^\.B (.*)$", body, re.M)]


def names_in(text):
    """Names of variables in backquotes."""
    return set(re.findall(r"`([A-Z][A-Z0-9_]{3,}\*?)`", text))


class Links(unittest.TestCase):
    def test_every_relative_link_leads_to_a_file(self):
        count, dead = 0, []
        for page in documents.all_pages():
            for target, line in documents.links(page):
                count += 1
                if not (documents.ROOT / page).parent.joinpath(target).exists():
                    dead.append(f"{page}:{line}: {target}")
        self.assertEqual(dead, [])
        self.assertGreater(count, 10)

    def test_every_page_for_users_and_administrators_can_be_found_from_the_readme(self):
        reached, todo = set(), ["README.md"]
        while todo:
            page = todo.pop()
            for target, _ in documents.links(page):
                path = (documents.ROOT / page).parent.joinpath(target).resolve()
                name = path.relative_to(documents.ROOT).as_posix()
                if name.endswith(".md") and path.is_file() and name not in reached:
                    reached.add(name)
                    todo.append(name)
        pages = {name for name in documents.pages_with_commands() if name != "README.md"}
        self.assertEqual(pages - reached, set())


class ManualPages(ReaderTest):
    def test_they_are_whole_and_nothing_complains(self):
        checkers = [words for words in (("groff", "-man", "-ww", "-z", "-Tutf8"), ("mandoc", "-Tlint", "-Wwarning"))
                    if shutil.which(words[0])]
        for name in ("muster", "environment"):
            text = self.shell(f"muster config --man={name}")
            for title in ("NAME", "DESCRIPTION", "SEE ALSO"):
                self.assertIn(f"\n.SH {title}\n", text)
            (self.folder / "page").write_text(text)
            for words in checkers:
                self.assertEqual(self.shell(f"{' '.join(words)} page").strip(), "", f"{name}: {words[0]}")
        self.assertEqual(self.shell("muster config --man"), self.shell("muster config --man=muster"))

    def test_the_built_ones_are_what_the_program_prints(self):
        for name, file in (("muster", "muster.1"), ("environment", "muster-environment.7")):
            built = self.build / "man" / file
            self.assertTrue(built.is_file(), f"{built}: the target man_pages makes it")
            self.assertEqual(built.read_text(), self.shell(f"muster config --man={name}"))

    def test_every_option_of_every_command_is_there(self):
        page = self.shell("muster config --man")
        listed = set(re.findall(r"--([a-z-]+)", " ".join(terms(page, "OPTIONS"))))
        for command in ("run", "submit", "plan", "status", "why", "logs", "events", "jobs", "cancel", "stop", "restart", "config"):
            used = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", self.shell(f"muster {command} --help"), re.M))
            self.assertTrue(used)
            self.assertEqual(used - listed, set(), command)
            self.assertIn(f"muster {command}", terms(page, "COMMANDS"))


class ExitCodes(ReaderTest):
    def codes(self):
        return [code for code in terms(self.shell("muster config --man"), "EXIT STATUS") if code != "other"]

    def test_the_table_has_every_code_of_the_contract(self):
        contract = re.findall(r"inline constexpr int k\w+ = (\d+);", documents.read_header())
        self.assertEqual(self.codes(), contract)

    def test_errors_md_has_a_heading_for_each(self):
        headings = documents.headings("docs/user/errors.md")
        self.assertEqual([title for title in headings if title.isdigit()], self.codes())
        self.assertIn("Any other code", headings)

    def test_sbatch_md_names_each(self):
        sentence = re.search(r"^Exit codes: (.*?)\n\n|^Exit codes: (.*)\Z", documents.read("docs/user/sbatch.md"),
                             re.M | re.S).group(0)
        self.assertEqual(re.findall(r"(?:^Exit codes: |; |;\n)(\d+)", sentence), self.codes())


class Variables(ReaderTest):
    def setUp(self):
        super().setUp()
        self.page = self.shell("muster config --man=environment")

    def test_environment_md_has_the_rows_of_the_agent_and_no_others(self):
        for title in ("Facts", "Settings", "Removed"):
            rows = set(terms(self.page, title.upper()))
            self.assertGreater(len(rows), 5)
            self.assertEqual(names_in(documents.section("docs/user/environment.md", title)), rows, title)

    def test_no_page_names_a_variable_of_ours_that_does_not_exist(self):
        known = {name for title in ("FACTS", "SETTINGS", "REMOVED", "FOR YOU TO SET") for name in terms(self.page, title)}
        known |= set(re.findall(r"Variable: (\w+)", self.shell("muster config --man").replace("\\_", "_")))
        known |= set(re.findall(r'"(MUSTER\w*)"', documents.read_header()))
        for page in documents.pages_with_commands():
            for name in re.findall(r"\b(?:MUSTER|TORCHELASTIC|JAX)_[A-Z_]*[A-Z]\b", documents.read(page)):
                # The build's own and the testbed's are of other folders.
                if not name.startswith(("MUSTER_SLURM", "MUSTER_BUILD")):
                    self.assertIn(name, known, page)


class Sentences(unittest.TestCase):
    """docs/user/errors.md has every sentence that a person meets, and no other."""

    def fragments(self):
        rows = re.findall(r"^\| (.*?) \||^([^|\n].*)$", documents.read("docs/user/errors.md"), re.M)
        for text in (row or line for row, line in rows):
            for sentence in re.findall(r"`([^`]+)`", text):
                for part in sentence.split("..."):
                    if part.strip(" :;,?"):
                        yield part.strip()

    def test_every_sentence_of_the_page_is_one_of_the_programs(self):
        literals = "\n".join(sentences.all_literals())
        # Words that a reader types are in backquotes too.
        typed = re.compile(r"--[a-z-]+|#SBATCH|muster |run$|rendezvousd$|-[A-Z]\b|srun|python |train.py|chmod|MUSTER_|squeue|sacct|scontrol |exit")
        fragments = [part for part in self.fragments() if not typed.match(part)]
        self.assertGreater(len(fragments), 100)
        self.assertEqual([part for part in fragments if part not in literals], [], "no program says this")

    def test_the_page_has_every_sentence_of_the_programs(self):
        fragments = [part for part in self.fragments() if len(part) > 4]
        errors = list(sentences.errors())
        self.assertGreater(len(errors), 80)
        missing = [f"{where}: {' ... '.join(parts)}" for where, parts in errors
                   if not any(part in text for part in fragments for text in parts)
                   and not any(known in text for known in sentences.NOT_FOR_READERS for text in parts)]
        self.assertEqual(missing, [], "explain these in docs/user/errors.md, or say in sentences.py why not")

    def test_what_is_left_out_exists(self):
        literals = "\n".join(sentences.all_literals())
        self.assertEqual([text for text in sentences.NOT_FOR_READERS if text not in literals], [])


if __name__ == "__main__":
    main()
