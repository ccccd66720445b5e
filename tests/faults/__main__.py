"""The fault book, row by row, with the tests that show each."""

from tests.faults import AREAS, shown

tests = shown()
for area, rows in AREAS.items():
    print(f"\n{area}")
    for number, title in rows.items():
        print(f"  {number:3}  {title}: {', '.join(tests.get(number, ['no test']))}")
